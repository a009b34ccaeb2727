//! [`KeyList`]: many keys in one buffer.

/// Byte strings, one after the other in memory, so that none needs its own allocation.
#[derive(Default)]
pub struct KeyList {
    pub(super) bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
}

impl KeyList {
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Like [`KeyList::push`]. Returns `false` if there is no memory for the key.
    pub(super) fn try_push(&mut self, key: &[u8]) -> bool {
        let has_memory = self.bytes.try_reserve(key.len()).is_ok();
        if has_memory {
            self.push(key);
        }
        has_memory
    }

    pub(super) fn last(&self) -> Option<&[u8]> {
        self.len().checked_sub(1).map(|last| self.get(last))
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i))
    }

    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> FromIterator<&'a [u8]> for KeyList {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(keys: I) -> KeyList {
        let mut list = KeyList::default();
        keys.into_iter().for_each(|key| list.push(key));
        list
    }
}
