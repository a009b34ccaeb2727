//! Where the store of a run lies: a file system in memory, which can lose power and be full, or a
//! directory of the operating system. Around it, a file system that fails on demand.

use std::fs;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use maypole::fs::{DirectFs, Fault, FaultFs, Fs, MemFs, Operation, RealFs, Target};

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `MemFs`.
    Memory,
    /// `MemFs` with a capacity, which other files take for a while.
    Small,
    /// `RealFs` in a temporary directory in memory (tmpfs), if there is one.
    Tmpfs,
    /// `RealFs` on the disk of the build directory.
    Disk,
    /// `DirectFs` on that disk.
    Direct,
}

impl Kind {
    /// The kind that `MAYPOLE_METAMORPHIC_DISK` names, if it is set.
    pub fn wanted() -> Option<Kind> {
        let name = std::env::var("MAYPOLE_METAMORPHIC_DISK").ok()?;
        let all = [Kind::Memory, Kind::Small, Kind::Tmpfs, Kind::Disk, Kind::Direct];
        let wanted = all.into_iter().find(|kind| format!("{kind:?}").eq_ignore_ascii_case(&name));
        Some(wanted.unwrap_or_else(|| panic!("MAYPOLE_METAMORPHIC_DISK is {name}")))
    }
}

/// More than a run needs while the disk has no other files.
const CAPACITY_BYTES: u64 = 64 << 20;

/// The other files of a small disk.
const FILLER: &str = "/filler";

/// The file system of a run, and the directory of its store.
#[derive(Debug)]
pub struct Disk {
    memory: Option<MemFs>,
    is_small: bool,
    /// Whether other files take the disk.
    is_full: bool,
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
        let memory = match kind {
            Kind::Memory => Some(MemFs::new()),
            Kind::Small => Some(MemFs::with_capacity(CAPACITY_BYTES)),
            _ => None,
        };
        let is_small = kind == Kind::Small;
        let inner: Arc<dyn Fs> = match (&memory, kind) {
            (Some(memory), _) => Arc::new(memory.clone()),
            (None, Kind::Direct) => Arc::new(DirectFs),
            (None, _) => Arc::new(RealFs),
        };
        let root = memory.is_none().then(|| {
            tempfile::Builder::new().prefix("metamorphic").tempdir_in(place(kind)).unwrap()
        });
        let faulty = FaultFs::new(Arc::clone(&inner));
        let fs = if fails || memory.is_some() { Arc::new(faulty.clone()) } else { inner };
        let (dir, used, is_full) = (PathBuf::new(), 0, false);
        let mut disk = Disk { memory, is_small, is_full, root, faulty, fs, dir, used };
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

    /// Lets another directory be that of the store.
    pub fn move_to(&mut self, dir: PathBuf) {
        self.dir = dir;
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
                    if !path.is_file() {
                        continue;
                    }
                    let name = path.file_name().unwrap();
                    match fs::copy(&path, copy.join(name)) {
                        // Statistics are published every second: it became `STATS`.
                        Err(error) if name == "STATS.tmp" && error.kind() == NotFound => {}
                        copied => _ = copied.unwrap(),
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

    /// Continues on an image. On a small disk all of its files are durable, and there is space.
    pub fn continue_on(&mut self, image: MemFs) {
        // Readers may still read what was left.
        self.heal();
        let image = if self.is_small { small(&image, &self.dir) } else { image };
        self.is_full = false;
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

    /// Calls succeed again.
    pub fn heal(&self) {
        self.faulty.heal();
    }

    /// Other files take a small disk, except for so many bytes.
    pub fn leave_free(&mut self, bytes: u64) {
        if !self.is_small {
            return;
        }
        self.empty();
        let memory = self.memory.as_ref().expect("a small disk is in memory");
        let mut filler = memory.create(Path::new(FILLER)).unwrap();
        let free = memory.free_bytes(Path::new("/")).unwrap().expect("it has a capacity");
        let mut rest = free.saturating_sub(bytes);
        while rest > 0 {
            let piece = rest.min(1 << 20);
            // The store may have taken the space meanwhile.
            if filler.append(&vec![7; piece as usize]).and_then(|()| filler.flush()).is_err() {
                break;
            }
            rest -= piece;
        }
        self.is_full = true;
    }

    /// Removes the other files.
    pub fn empty(&mut self) {
        if self.is_full {
            self.memory().expect("it is in memory").remove(Path::new(FILLER)).unwrap();
            self.is_full = false;
        }
    }

    pub fn is_full(&self) -> bool {
        self.is_full
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

/// A disk with a capacity and the files that `image` has in `dir`. An image has no capacity.
fn small(image: &MemFs, dir: &Path) -> MemFs {
    let small = MemFs::with_capacity(CAPACITY_BYTES);
    small.create_dir_all(dir).unwrap();
    small.sync_dir(Path::new("/")).unwrap();
    for name in image.list(dir).unwrap_or_default() {
        let path = dir.join(name);
        // No other name in a store is that of a directory.
        let Ok(bytes) = image.read(&path) else { continue };
        let mut file = small.create(&path).unwrap();
        file.append(&bytes).and_then(|()| file.sync()).expect("there is space");
    }
    small.sync_dir(dir).unwrap();
    small
}
