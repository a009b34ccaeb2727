//! A directory for databases that are measured, or for a file that is not finished yet. It is
//! removed with its contents when the program ends, be it by success, failure, Ctrl-C, SIGTERM or
//! SIGHUP. Parent directories that this program created are removed too, if they are empty.
//!
//! ```text
//! signal ─► flag INTERRUPTED          the main thread reports nothing any more, and waits
//!        ─► thread "signals" ─► locks MADE for good, so that no more directories are made
//!                            ─► removes what MADE lists ─► dies by the signal's default action
//! ```
//!
//! An end that cannot be caught, such as SIGKILL or a lack of memory, leaves the directory behind.
//! Therefore each running program holds a lock on a file in its directory. The next program that
//! makes a directory with the same prefix in the same parent removes the directories whose lock
//! file is not locked, and says so.
//!
//! After the removal, the signal's default action ends the program, so the exit status is what a
//! shell expects: 128 plus the number of the signal. A second Ctrl-C ends the program at once, even
//! if files are left. A second SIGTERM or SIGHUP does not cut the removal short, because some
//! senders send them twice in a row. Windows has only Ctrl-C.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs, thread};

use signal_hook::consts::SIGINT;
use signal_hook::{flag, low_level};

use crate::failure::{Failure, Result};
use crate::output::{printable, tell};

/// The directories that this process has made and not removed yet. The mutex is locked while a
/// directory is made.
static MADE: Mutex<Made> = Mutex::new(Made { above: Vec::new(), scratch: None });

/// Whether a signal has arrived.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the next Ctrl-C ends the program without waiting for the removal.
static IMPATIENT: AtomicBool = AtomicBool::new(false);

/// A second SIGINT within this time counts as the same Ctrl-C, because `timeout -s INT` sends the
/// signal twice: to the process and to its group.
const SAME_PRESS: Duration = Duration::from_millis(200);

/// The name of the lock file in a scratch directory. The process that made the directory holds the
/// lock.
const OWNED: &str = "maypole-scratch.lock";

/// How many times the removal of a directory is tried. A try fails if threads create files in the
/// directory meanwhile.
const TRIES: usize = 1000;

struct Made {
    /// Directories that were missing above the scratch directory, outermost first.
    above: Vec<PathBuf>,
    scratch: Option<PathBuf>,
}

fn made() -> MutexGuard<'static, Made> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new directory, which is removed when this value is dropped or a signal ends the program.
pub struct Scratch {
    path: PathBuf,
    /// The lock of this file is released when the process ends, in whatever way.
    _owned: File,
}

/// The system's directory for temporary files. An empty `TMPDIR` counts as not set.
pub fn temporary() -> PathBuf {
    match env::temp_dir() {
        dir if dir.as_os_str().is_empty() => PathBuf::from("/tmp"),
        dir => dir,
    }
}

impl Scratch {
    /// Makes a directory whose name begins with `prefix` inside `parent`, which is created if it is
    /// missing.
    pub fn new(parent: &Path, prefix: &str) -> Result<Scratch> {
        let mut made = made();
        listen()
            .map_err(|error| Failure::new(format_args!("cannot listen to signals: {error}")))?;
        remove_abandoned(parent, prefix);
        let scratch = made.make(parent, prefix).and_then(|path| {
            let owned = own(&path).map_err(|error| Failure::of_file(&path, "lock", &error));
            Ok(Scratch { path, _owned: owned? })
        });
        if scratch.is_err() {
            let _ = made.remove();
        }
        scratch
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, and reports a failure, which the destructor cannot.
    pub fn close(self) -> Result {
        made().remove()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = made().remove();
    }
}

/// Runs `make`, which may create directories inside the scratch directory, under the lock of
/// `MADE`. So if a signal arrives, the removal waits for `make`. Directories that were created
/// after the removal would stay.
pub fn making<R>(make: impl FnOnce() -> R) -> R {
    let _made = made();
    make()
}

/// Waits for ever if a signal has arrived. The program is about to end, and a command whose files
/// are being removed would only report misleading errors.
pub fn wait_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// Locks a scratch directory for this process. The lock file is locked before it gets its final
/// name, so that no other process finds it unlocked.
fn own(scratch: &Path) -> std::io::Result<File> {
    let unlocked = scratch.join("new.lock");
    let file = File::create_new(&unlocked)?;
    file.lock()?;
    fs::rename(unlocked, scratch.join(OWNED))?;
    Ok(file)
}

/// Removes directories whose programs have ended without removing them. Directories that cannot be
/// inspected or removed stay, which is no failure of this call.
fn remove_abandoned(parent: &Path, prefix: &str) {
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_scratch = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        // Symbolic links are not followed.
        if !is_scratch || !entry.file_type().is_ok_and(|kind| kind.is_dir()) || !is_own(&entry) {
            continue;
        }
        let dir = entry.path();
        let owned = File::options().write(true).open(dir.join(OWNED));
        if owned.is_ok_and(|owned| owned.try_lock().is_ok()) && remove_tree(&dir).is_ok() {
            tell(format_args!("note: {}: left by a call that was cut off, removed", dir.display()));
        }
    }
}

/// Whether the directory belongs to the user who runs the program. This is checked because root
/// could remove the directories of all other users.
fn is_own(entry: &fs::DirEntry) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let user = rustix::process::geteuid().as_raw();
        entry.metadata().is_ok_and(|metadata| metadata.uid() == user)
    }
    #[cfg(not(unix))]
    {
        let _ = entry;
        true
    }
}

impl Made {
    fn make(&mut self, parent: &Path, prefix: &str) -> Result<PathBuf> {
        let failed = |error| Failure::of_file(parent, "make a scratch directory here", &error);
        let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
        let missing: Vec<&Path> = parent.ancestors().take_while(is_missing).collect();
        for dir in missing.into_iter().rev() {
            match fs::create_dir(dir) {
                Ok(()) => self.above.push(dir.to_owned()),
                // `parent` is like `new/..`, which exists once `new` does, or another process made
                // the directory meanwhile.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let scratch = tempfile::Builder::new().prefix(prefix).tempdir_in(parent);
        let scratch = scratch.map_err(failed)?.keep();
        self.scratch = Some(scratch.clone());
        Ok(scratch)
    }

    fn remove(&mut self) -> Result {
        if let Some(scratch) = self.scratch.take() {
            remove(&scratch)?;
        }
        for dir in self.above.drain(..).rev() {
            // A directory that contains something else by now is kept.
            let _ = fs::remove_dir(dir);
        }
        Ok(())
    }
}

/// Removes a directory with its contents.
pub fn remove(dir: &Path) -> Result {
    remove_tree(dir).map_err(|error| Failure::of_file(dir, "remove", &error))
}

fn remove_tree(dir: &Path) -> std::io::Result<()> {
    for _ in 1..TRIES {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            // A file may have been removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound && dir.exists() => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
    fs::remove_dir_all(dir)
}

/// After this call, each signal in [`ENDING`] removes the directories that [`MADE`] lists, and ends
/// the program. Signals that were ignored when the program started, as with `nohup`, stay ignored.
fn listen() -> std::io::Result<()> {
    let ignored = ignored_signals();
    let signals = ENDING.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let signals: Vec<i32> = signals.collect();
    // `first_of` starts to collect signals, and only a collected signal runs `end`, which ends the
    // program. So `first_of` is called before INTERRUPTED is registered: if a signal set
    // INTERRUPTED without being collected, the main thread would wait for ever.
    //
    // Once IMPATIENT is set, SIGINT ends the program at once. Only `end` sets IMPATIENT, and the
    // first signal starts `end`. So if a Ctrl-C is the first signal, it only starts the removal.
    let first = first_of(signals.clone())?;
    if signals.contains(&SIGINT) {
        flag::register_conditional_default(SIGINT, &IMPATIENT)?;
    }
    for &signal in &signals {
        flag::register(signal, &INTERRUPTED)?;
    }
    thread::Builder::new().name("signals".into()).spawn(move || first().map(end))?;
    Ok(())
}

/// The signals that end the program.
#[cfg(unix)]
const ENDING: &[i32] = &[SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
#[cfg(not(unix))]
const ENDING: &[i32] = &[SIGINT];

/// Collects these signals from now on. The returned function waits for the first of them.
#[cfg(unix)]
fn first_of(signals: Vec<i32>) -> std::io::Result<impl FnOnce() -> Option<i32> + Send> {
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    Ok(move || signals.forever().next())
}

/// Outside Unix nothing can wait for a signal, so [`INTERRUPTED`] is polled.
#[cfg(not(unix))]
fn first_of(signals: Vec<i32>) -> std::io::Result<impl FnOnce() -> Option<i32> + Send> {
    Ok(move || {
        while !INTERRUPTED.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
        }
        signals.first().copied()
    })
}

/// Removes everything and ends the program.
fn end(signal: i32) {
    // A signal that arrived between the call of `first_of` and the registration of INTERRUPTED has
    // not set it.
    INTERRUPTED.store(true, Ordering::SeqCst);
    thread::spawn(|| {
        thread::sleep(SAME_PRESS);
        IMPATIENT.store(true, Ordering::SeqCst);
        tell("still removing temporary files; Ctrl-C leaves them");
    });
    let mut made = made();
    if let Err(Failure::Message(message)) = made.remove() {
        tell(format_args!("error: {}", printable(&message)));
    }
    // The lock of MADE is still held, so nothing is made before the program ends.
    let _ = low_level::emulate_default_handler(signal);
}

/// A bit for each ignored signal; the lowest bit is that of signal 1. 0 if the system does not
/// report them.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
