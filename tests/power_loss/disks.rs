//! Image files, loop devices and mounts. An outer image file holds an XFS ([`Outer`]). The writer's
//! disk and its clones are image files in this XFS.
//!
//! Nothing here needs to be undone by hand. The mounts are in a mount namespace of their own, each
//! loop device is detached when its file system is unmounted, and the outer image file is deleted
//! as soon as it is mounted.

use std::fmt;
use std::fs::{File, create_dir, create_dir_all};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Sizes of the sparse image files: the outer one, and a disk. `mkfs.xfs` needs at least 300 MiB.
const OUTER_BYTES: u64 = 6 << 30;
const DISK_BYTES: u64 = 400 << 20;

/// All mounts are below this directory. A mount on the directory hides its contents from the test,
/// but not from other processes.
const ROOT: &str = "/mnt";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    pub const ALL: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

    pub fn mkfs(self) -> String {
        format!("mkfs.{self}")
    }

    pub fn can_be_made(self) -> bool {
        is_command(&self.mkfs())
    }

    /// Makes an empty file system of this kind in a new file at `path`.
    pub fn make(self, path: &Path) {
        let _ = std::fs::remove_file(path);
        File::create(path).unwrap().set_len(DISK_BYTES).unwrap();
        let quiet = if self == FileSystem::Ext4 { "-qF" } else { "-qf" };
        run(Command::new(self.mkfs()).arg(quiet).arg(path));
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        })
    }
}

/// The missing prerequisites.
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root to mount".to_owned());
    }
    let commands = ["mkfs.xfs", "mount", "umount", "setpriv", "unshare"];
    if let Some(command) = commands.into_iter().find(|command| !is_command(command)) {
        return Some(format!("there is no {command}"));
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("there are no loop devices".to_owned());
    }
    let allowed = in_own_namespaces().arg("true").stderr(Stdio::null()).status();
    let is_allowed = allowed.is_ok_and(|status| status.success());
    (!is_allowed).then(|| "the kernel does not allow mounts here".to_owned())
}

fn is_command(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).exists())
}

/// A command to which the caller appends another one, which then runs in namespaces of its own.
/// However this process ends, the kernel kills all processes in these namespaces and removes their
/// mounts.
pub fn in_own_namespaces() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc"]);
    command
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The XFS in the outer image file, which holds the disk and its clones.
pub struct Outer {
    mount: Mount,
}

impl Outer {
    pub fn new() -> Outer {
        run(Command::new("mount").args(["-t", "tmpfs", "maypole", ROOT]));
        let root = Path::new(ROOT);
        for dir in ["outer", "disk", "image", "incoming"] {
            create_dir(root.join(dir)).unwrap();
        }
        // This file lies outside of the test's mounts. Its name is removed at the end of this
        // function. The mount keeps its contents until the kernel removes the mount.
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(OUTER_BYTES).unwrap();
        let path = file.path();
        run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(path));
        // With `discard`, the space of a file that is deleted in this file system becomes free in
        // the file around it.
        let mount = Mount::new("xfs", "loop,discard", path, root.join("outer"));
        Outer { mount }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.mount.path().join(name)
    }
}

/// Where the writer's disk is mounted.
pub fn disk_point() -> PathBuf {
    Path::new(ROOT).join("disk")
}

/// A directory in memory for the tables to ingest. If they were on the disk, syncing them could
/// also make durable what the database failed to sync.
pub fn incoming() -> PathBuf {
    Path::new(ROOT).join("incoming")
}

/// Something mounted, until it is dropped.
pub struct Mount {
    at: PathBuf,
}

impl Mount {
    fn new(kind: &str, options: &str, image: &Path, at: PathBuf) -> Mount {
        run(Command::new("mount").args(["-t", kind, "-o", options]).arg(image).arg(&at));
        Mount { at }
    }

    /// The writer's disk.
    pub fn disk(kind: FileSystem, disk: &Path) -> Mount {
        Mount::new(&kind.to_string(), "loop", disk, disk_point())
    }

    /// Mounts a clone of a disk. The disk may be mounted at the same time.
    pub fn image(kind: FileSystem, image: &Path) -> Mount {
        let options = if kind == FileSystem::Xfs { "loop,nouuid" } else { "loop" };
        let mount = Mount::new(&kind.to_string(), options, image, Path::new(ROOT).join("image"));
        // The image has the same file system identity as the disk. For a kernel before 6.7, two
        // btrfs file systems with one identity are the same file system, so it would show the disk
        // here.
        let device = |path: &Path| path.metadata().unwrap().dev();
        assert_ne!(device(mount.path()), device(&disk_point()), "the disk, not its image");
        mount
    }

    pub fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A panic may have left files open, so that the file system is busy. The end of the
            // namespace unmounts it.
            let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
        } else {
            run(Command::new("umount").arg(&self.at));
        }
    }
}

/// Makes `to` a clone of `from`, which shares its extents and has its content at one moment.
pub fn clone(from: &Path, to: &Path) {
    let _ = std::fs::remove_file(to);
    let (from, to) = (File::open(from).unwrap(), File::create_new(to).unwrap());
    rustix::fs::ioctl_ficlone(&to, &from).unwrap();
}

/// Creates a directory that may already exist.
pub fn make_dir(path: &Path) {
    create_dir_all(path).unwrap();
}
