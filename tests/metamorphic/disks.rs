//! Where the store of a run lies: a file system in memory, which can lose power, or a directory of
//! the operating system. Around it, a file system that fails on demand.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use maypole::fs::{DirectFs, Fault, FaultFs, Fs, MemFs, Operation, RealFs, Target};

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `MemFs`.
    Memory,
    /// `RealFs` in a temporary directory in memory (tmpfs), if there is one.
    Tmpfs,
    /// `RealFs` on the disk of the build directory.
    Disk,
    /// `DirectFs` on that disk.
    Direct,
}

/// The file system of a run, and the directory of its store.
#[derive(Debug)]
pub struct Disk {
    memory: Option<MemFs>,
    /// Holds the directories of a real file system until the end of the run.
    root: Option<tempfile::TempDir>,
    faulty: FaultFs,
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// Directories used so far.
    used: u32,
}

/// The directory for temporary directories of this kind.
fn place(kind: Kind) -> PathBuf {
    let shm = Path::new("/dev/shm");
    match kind {
        Kind::Tmpfs if shm.is_dir() => shm.to_owned(),
        _ => PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
    }
}

impl Disk {
    /// An empty file system. If not `fails`, a real one is used as it is: the wrapper that can fail
    /// hides descriptors, and so the reads that run at the same time.
    pub fn new(kind: Kind, fails: bool) -> Disk {
        let memory = (kind == Kind::Memory).then(MemFs::new);
        let inner: Arc<dyn Fs> = match (&memory, kind) {
            (Some(memory), _) => Arc::new(memory.clone()),
            (None, Kind::Direct) => Arc::new(DirectFs),
            (None, _) => Arc::new(RealFs),
        };
        let root = (kind != Kind::Memory).then(|| {
            tempfile::Builder::new().prefix("metamorphic").tempdir_in(place(kind)).unwrap()
        });
        let faulty = FaultFs::new(Arc::clone(&inner));
        let fs = if fails || memory.is_some() { Arc::new(faulty.clone()) } else { inner };
        let mut disk = Disk { memory, root, faulty, fs, dir: PathBuf::new(), used: 0 };
        disk.dir = disk.fresh("db");
        disk
    }

    pub fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    /// The directory of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path that was not used before.
    pub fn fresh(&mut self, name: &str) -> PathBuf {
        self.used += 1;
        let root = self.root.as_ref().map_or(Path::new("/"), |root| root.path());
        root.join(format!("{name}{}", self.used))
    }

    pub fn can_lose_power(&self) -> bool {
        self.memory.is_some()
    }

    pub fn memory(&self) -> Option<&MemFs> {
        self.memory.as_ref()
    }

    /// Continues with what is left when the process is killed now. The old files stay, for those
    /// who still read them.
    pub fn kill(&mut self) {
        match &self.memory {
            Some(memory) => self.continue_on(memory.kill()),
            None => {
                let copy = self.fresh("db");
                fs::create_dir(&copy).unwrap();
                for entry in fs::read_dir(&self.dir).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_file() {
                        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
                    }
                }
                self.dir = copy;
            }
        }
    }

    /// What a power loss at this moment may leave, if it can be simulated.
    pub fn crash(&self, seed: u64) -> Option<MemFs> {
        self.memory.as_ref().map(|memory| memory.crash(seed))
    }

    /// Continues on an image.
    pub fn continue_on(&mut self, image: MemFs) {
        self.faulty = FaultFs::new(Arc::new(image.clone()));
        self.fs = Arc::new(self.faulty.clone());
        self.memory = Some(image);
    }

    /// Makes calls of the store fail from now on.
    pub fn fail(&self, call: Option<Operation>, nth: u64, fault: Fault, forever: bool) {
        let target = call.map_or(Target::Changes, Target::Only);
        match forever {
            true => self.faulty.fail_from(target, nth, fault),
            false => self.faulty.fail_once(target, nth, fault),
        }
    }

    pub fn heal(&self) {
        self.faulty.heal();
    }

    /// How many calls have failed so far.
    pub fn faults(&self) -> u64 {
        self.faulty.faults()
    }

    /// The file system that fails on demand, to hook into its calls.
    pub fn faulty(&self) -> &FaultFs {
        &self.faulty
    }
}
