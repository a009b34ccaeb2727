//! What cursors request of the database: to accept the *marks* that they propose, which are
//! intervals of keys in which they saw nothing and over which later cursors jump (`iter/marks/`),
//! and to compact a range in which they passed many hidden entries.

use std::sync::atomic::Ordering;

use super::cleanups::Cleanup;
use crate::db::inner::Inner;
use crate::db::iter::marks::Owner;
use crate::sync::lock;

impl Owner for Inner {
    /// Accepts the proposed marks now, unless another thread leads the writers. Then that leader or
    /// the next one accepts them.
    fn take_in_marks(&self) {
        if let Some(mut writer) = self.writing.try_lead() {
            let last = writer.last_sequence;
            writer.marks.take_in(self.reading.marks(), last);
        }
    }

    fn request_cleanup(&self, from: &[u8], end: Option<&[u8]>) {
        let next_file = self.store.next_file.load(Ordering::Relaxed);
        let (from, end) = (from.to_vec(), end.map(<[u8]>::to_vec));
        let cleanup = Cleanup { from, end, next_file };
        if lock(&self.background.cleanups).request(cleanup) {
            self.schedule(&mut self.tree.lock());
        }
    }
}
