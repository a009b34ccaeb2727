//! [`Between`]: a file system that lets somebody else act between any two calls.
//!
//! ```text
//!   reader   list      open MANIFEST      read      open table      …
//!   writer         put               flush               compact_all
//! ```
//!
//! A reader that opens the directory of a working writer meets such moments once in thousands of
//! openings. Here the test chooses them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use maypole::fs::{DescriptorPool, FileLock, Fs, RandomAccessFile, WritableFile};

type Act = Box<dyn FnMut(u32) + Send>;

#[derive(Default)]
struct Moments {
    calls: u32,
    /// `None`: nobody acts any more.
    act: Option<Act>,
}

/// Calls a function before each call to the wrapped file system and to its files.
#[derive(Clone)]
pub struct Between {
    inner: Arc<dyn Fs>,
    moments: Arc<Mutex<Moments>>,
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Between")
    }
}

impl Between {
    /// `act` gets the number of earlier calls.
    pub fn new(inner: Arc<dyn Fs>, act: impl FnMut(u32) + Send + 'static) -> Between {
        let moments = Moments { calls: 0, act: Some(Box::new(act)) };
        Between { inner, moments: Arc::new(Mutex::new(moments)) }
    }

    /// From now on nobody acts, and what `act` owned is dropped.
    pub fn stop(&self) {
        self.moments.lock().unwrap().act = None;
    }

    fn pass(&self) -> &dyn Fs {
        let mut moments = self.moments.lock().unwrap();
        let calls = moments.calls;
        moments.calls += 1;
        if let Some(act) = &mut moments.act {
            act(calls);
        }
        &*self.inner
    }
}

impl Fs for Between {
    fn absolute(&self, path: &Path) -> maypole::Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn create(&self, path: &Path) -> maypole::Result<Box<dyn WritableFile>> {
        self.pass().create(path)
    }

    fn open(&self, path: &Path) -> maypole::Result<Arc<dyn RandomAccessFile>> {
        let inner = self.pass().open(path)?;
        Ok(Arc::new(BetweenFile { inner, fs: self.clone() }))
    }

    fn open_pooled(
        &self,
        path: &Path,
        pool: &Arc<DescriptorPool>,
    ) -> maypole::Result<Arc<dyn RandomAccessFile>> {
        let inner = self.pass().open_pooled(path, pool)?;
        Ok(Arc::new(BetweenFile { inner, fs: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> maypole::Result<()> {
        self.pass().rename(from, to)
    }

    fn remove(&self, path: &Path) -> maypole::Result<()> {
        self.pass().remove(path)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> maypole::Result<()> {
        self.pass().hard_link(existing, new)
    }

    fn exists(&self, path: &Path) -> maypole::Result<bool> {
        self.pass().exists(path)
    }

    fn list(&self, dir: &Path) -> maypole::Result<Vec<String>> {
        self.pass().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> maypole::Result<()> {
        self.pass().create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> maypole::Result<()> {
        self.pass().sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> maypole::Result<Box<dyn FileLock>> {
        self.pass().lock(path)
    }
}

#[derive(Debug)]
struct BetweenFile {
    inner: Arc<dyn RandomAccessFile>,
    fs: Between,
}

impl RandomAccessFile for BetweenFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> maypole::Result<()> {
        self.fs.pass();
        self.inner.read_exact_at(offset, buffer)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn waits_for_device(&self) -> bool {
        false
    }

    fn keep_open(&self) -> maypole::Result<bool> {
        self.inner.keep_open()
    }
}
