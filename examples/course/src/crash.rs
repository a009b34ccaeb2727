//! A simulated disk: remembers which bytes and names of files are synced, lets the engine crash
//! before its next step, and then leaves on the real disk what such a crash may leave.
//!
//! The simulation belongs to one thread, and each check runs in a thread of its own. Without a
//! simulation, [`before`] does nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What `disk.rs` is about to do.
pub enum Step<'a> {
    Write(&'a Path, &'a [u8]),
    Append(&'a Path, &'a [u8]),
    Rename(&'a Path, &'a Path),
    Remove(&'a Path),
    Sync(&'a Path),
    SyncDirectory,
}

/// What a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The program was killed: the system still has all that was written.
    All,
    /// The power failed. `names`: the names of files that were not synced are there too. `half`: of
    /// what was written to a file and not synced, one half is there.
    Synced { names: bool, half: bool },
}

/// All kinds of crashes.
pub const KINDS: [Left; 5] = [
    Left::All,
    Left::Synced { names: true, half: false },
    Left::Synced { names: false, half: false },
    Left::Synced { names: true, half: true },
    Left::Synced { names: false, half: true },
];

/// A file is known by a number, because its name may change.
type Number = usize;

#[derive(Default)]
pub struct Disk {
    /// How many steps succeed before the crash.
    steps: usize,
    names: BTreeMap<PathBuf, Number>,
    synced_names: BTreeMap<PathBuf, Number>,
    bytes: Vec<Vec<u8>>,
    synced_bytes: Vec<Vec<u8>>,
    /// Whether a file was written anew, and not only appended to, since it was synced.
    is_new: Vec<bool>,
    /// What the engine did.
    pub did: Vec<String>,
}

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

/// Starts a simulation: the engine crashes after this number of steps. The files of the directory
/// are synced.
pub fn start(directory: &Path, steps: usize) -> io::Result<()> {
    let mut disk = Disk { steps, ..Disk::default() };
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        let number = disk.file(&path);
        disk.bytes[number] = fs::read(path)?;
    }
    disk.synced_bytes = disk.bytes.clone();
    disk.synced_names = disk.names.clone();
    DISK.set(Some(disk));
    Ok(())
}

/// Is called before each step. Returns an error if the engine has crashed, and otherwise whether
/// there is a simulation.
pub fn before(step: Step) -> io::Result<bool> {
    DISK.with_borrow_mut(|disk| match disk {
        None => Ok(false),
        Some(disk) if disk.did.len() == disk.steps => Err(io::Error::other("a crash")),
        Some(disk) => {
            disk.change(step);
            Ok(true)
        }
    })
}

/// Ends the simulation.
pub fn end() -> Disk {
    DISK.take().expect("a simulation")
}

impl Disk {
    /// The last step before the crash. `None`: the engine did all that it wanted to before it came.
    pub fn crashed_after(&self) -> Option<&str> {
        let last = self.did.last().map_or("nothing", String::as_str);
        (self.did.len() == self.steps).then_some(last)
    }

    /// Makes the directory as the crash leaves it.
    pub fn leave(&self, directory: &Path, left: Left) -> io::Result<()> {
        for file in fs::read_dir(directory)? {
            fs::remove_file(file?.path())?;
        }
        let names = match left {
            Left::Synced { names: false, .. } => &self.synced_names,
            _ => &self.names,
        };
        names.iter().try_for_each(|(path, &number)| fs::write(path, self.left(number, left)))
    }

    fn file(&mut self, path: &Path) -> Number {
        let next = self.bytes.len();
        let number = *self.names.entry(path.to_path_buf()).or_insert(next);
        if number == next {
            self.bytes.push(Vec::new());
            self.synced_bytes.push(Vec::new());
            self.is_new.push(false);
        }
        number
    }

    fn change(&mut self, step: Step) {
        let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
        let did = match step {
            Step::Write(path, bytes) => {
                let number = self.file(path);
                self.bytes[number] = bytes.to_vec();
                self.is_new[number] = true;
                if bytes.is_empty() {
                    format!("empty {}", name(path))
                } else {
                    format!("write {}", name(path))
                }
            }
            Step::Append(path, bytes) => {
                let number = self.file(path);
                self.bytes[number].extend(bytes);
                format!("append {} bytes to {}", bytes.len(), name(path))
            }
            Step::Rename(from, to) => {
                let number = self.file(from);
                self.names.remove(from);
                self.names.insert(to.to_path_buf(), number);
                format!("rename {} to {}", name(from), name(to))
            }
            Step::Remove(path) => {
                self.names.remove(path);
                format!("remove {}", name(path))
            }
            Step::Sync(path) => {
                let number = self.file(path);
                self.synced_bytes[number] = self.bytes[number].clone();
                self.is_new[number] = false;
                format!("sync {}", name(path))
            }
            Step::SyncDirectory => {
                self.synced_names = self.names.clone();
                "sync the directory".into()
            }
        };
        self.did.push(did);
    }

    /// The bytes that a crash leaves of a file.
    fn left(&self, number: Number, left: Left) -> &[u8] {
        let (all, synced) = (&self.bytes[number], &self.synced_bytes[number]);
        match left {
            Left::All => all,
            Left::Synced { half: false, .. } => synced,
            Left::Synced { half: true, .. } => {
                let kept = if self.is_new[number] { 0 } else { synced.len() };
                &all[..kept + (all.len() - kept) / 2]
            }
        }
    }
}
