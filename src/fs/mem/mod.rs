//! A file system in memory that can lose power.
//!
//! [`MemFs::crash`] returns an image: a second [`MemFs`] with the files as a power loss may leave
//! them. They may be as damaged as POSIX permits:
//!
//! * A file may lose the end of its unsynced bytes. Each other unsynced block of 4 KiB survives or
//!   not, independently of the others. A lost block reads as zeros or, sometimes, as other bytes of
//!   the file.
//! * Each unsynced change to a directory survives or not, independently of the others. A rename
//!   within one directory is one change.
//! * Synced bytes survive if the image has a name for their file.
//! * If a log is being written, zeros follow its bytes, because [`super::RealFs`] allocates space
//!   for logs ahead.
//!
//! [`MemFs::kill`] returns an image after the end of the process: all names and all flushed bytes,
//! and zeros after the bytes of a log that was being written. Bytes that were appended but not
//! flushed are in the buffer of the process, so they are in no image.

mod power_loss;
mod tree;

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::{FileLock, Fs, RandomAccessFile, WRITE_BUFFER_BYTES, WritableFile, parent, past_end};
use crate::error::{Error, Result};
use crate::sync::{Mutex, lock, rank};

use power_loss::PowerLoss;
use tree::{Change, Directory, File, FileNode, FileTree, Node};

/// The number of zeros that follow a log in an image, if the log is being written.
const LOG_AHEAD_BYTES: usize = 5000;

/// A file system in memory. Clones share it.
///
/// Paths start at one root, with or without a leading `/`; `..` is rejected. Directories can be
/// renamed only within their parent.
///
/// ```
/// use maypole::fs::{Fs, MemFs};
/// use std::path::Path;
///
/// let fs = MemFs::new();
/// let mut file = fs.create(Path::new("a"))?;
/// file.append(b"bytes")?;
/// file.sync()?;
/// fs.sync_dir(Path::new("."))?;
/// assert_eq!(fs.crash(7).read(Path::new("a"))?, b"bytes");
/// # Ok::<(), maypole::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemFs {
    tree: Arc<Mutex<FileTree, rank::MemTree>>,
}

impl MemFs {
    /// An empty file system.
    pub fn new() -> MemFs {
        MemFs::default()
    }

    /// An empty file system that is full when its files have this many bytes together. Appends
    /// beyond that find no space. Its images are not limited.
    pub fn with_capacity(capacity_bytes: u64) -> MemFs {
        let tree = FileTree { capacity_bytes: Some(capacity_bytes), ..FileTree::default() };
        MemFs { tree: Arc::new(Mutex::new(tree)) }
    }

    /// An image that a power loss at this moment may leave. `seed` determines which one. Everything
    /// in the image is durable.
    pub fn crash(&self, seed: u64) -> MemFs {
        let mut loss = PowerLoss::new(seed);
        let directories =
            lock(&self.tree).directories.iter().map(|dir| loss.directory(dir)).collect();
        MemFs::from_directories(directories)
    }

    /// An image after the process is killed while the system continues. It has all flushed bytes
    /// and all names, but a later [`MemFs::crash`] of the image can still lose what was not synced.
    pub fn kill(&self) -> MemFs {
        let directories = lock(&self.tree).directories.iter().map(Directory::detached).collect();
        MemFs::from_directories(directories)
    }

    fn from_directories(directories: Vec<Directory>) -> MemFs {
        MemFs { tree: Arc::new(Mutex::new(FileTree::from(directories))) }
    }

    /// Runs `body` on the tree and the components of `path`. Errors name the path and the
    /// operation.
    fn with_tree<T>(
        &self,
        path: &Path,
        operation: &'static str,
        body: impl FnOnce(&mut FileTree, &[&str]) -> io::Result<T>,
    ) -> Result<T> {
        names(path)
            .and_then(|names| body(&mut lock(&self.tree), &names))
            .map_err(|error| Error::io(path, operation, error))
    }
}

impl MemFs {
    fn create_file(&self, path: &Path, zeros_behind: usize) -> Result<Box<dyn WritableFile>> {
        let file = FileNode::new(Mutex::new(File { zeros_behind, ..File::default() }));
        self.with_tree(path, "create", |tree, names| {
            let (dir, name) = tree.parent(names)?;
            match dir.now.get(name) {
                Some(Node::Directory(_)) => return Err(ErrorKind::IsADirectory.into()),
                Some(Node::File(_)) => dir.change(Change::Unlink(name.to_owned())),
                None => {}
            }
            dir.change(Change::Link(name.to_owned(), Node::File(Arc::clone(&file))));
            Ok(())
        })?;
        Ok(Box::new(MemWritableFile {
            path: path.to_owned(),
            tree: Arc::clone(&self.tree),
            file,
            buffer: Vec::new(),
            flushed_bytes: 0,
        }))
    }
}

impl Fs for MemFs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.create_file(path, 0)
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.create_file(path, LOG_AHEAD_BYTES)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.with_tree(path, "open", |tree, names| match tree.node(names)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(ErrorKind::IsADirectory.into()),
        })?;
        let len = lock(&file).bytes.len() as u64;
        Ok(Arc::new(MemRandomAccessFile { path: path.to_owned(), file, len }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.with_tree(from, "rename", |tree, from_names| {
            let to_names = names(to)?;
            let node = tree.node(from_names)?;
            match (&node, tree.node(&to_names)) {
                (_, Err(error)) if error.kind() == ErrorKind::NotFound => {}
                (_, Err(error)) => return Err(error),
                (Node::File(_), Ok(Node::File(_))) => {}
                (Node::File(_), Ok(Node::Directory(_))) => {
                    return Err(ErrorKind::IsADirectory.into());
                }
                (Node::Directory(_), Ok(_)) => return Err(ErrorKind::AlreadyExists.into()),
            }
            let (dir, from_name) = tree.parent(from_names)?;
            let from_name = from_name.to_owned();
            if from.parent().map(names).transpose()? == to.parent().map(names).transpose()? {
                let to_name = to_names[to_names.len() - 1].to_owned();
                dir.change(Change::Rename { from: from_name, to: to_name, node });
                return Ok(());
            }
            if matches!(node, Node::Directory(_)) {
                return Err(ErrorKind::Unsupported.into());
            }
            let (to_dir, to_name) = tree.parent(&to_names)?;
            to_dir.change(Change::Link(to_name.to_owned(), node));
            tree.parent(from_names)?.0.change(Change::Unlink(from_name));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.with_tree(path, "remove", |tree, names| {
            if let Node::Directory(_) = tree.node(names)? {
                return Err(ErrorKind::IsADirectory.into());
            }
            let (dir, name) = tree.parent(names)?;
            dir.change(Change::Unlink(name.to_owned()));
            Ok(())
        })
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.with_tree(new, "link", |tree, new_names| {
            let node = tree.node(&names(existing)?)?;
            if let Node::Directory(_) = node {
                return Err(ErrorKind::IsADirectory.into());
            }
            let (dir, name) = tree.parent(new_names)?;
            if dir.now.contains_key(name) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            dir.change(Change::Link(name.to_owned(), node));
            Ok(())
        })
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.with_tree(path, "look up", |tree, names| match tree.node(names) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.with_tree(dir, "list", |tree, names| {
            Ok(tree.directory(names)?.now.keys().cloned().collect())
        })
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.with_tree(dir, "create the directory", |tree, names| {
            for depth in 1..=names.len() {
                match tree.node(&names[..depth]) {
                    Ok(Node::Directory(_)) => {}
                    Ok(Node::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                    Err(_) => {
                        let node = Node::Directory(tree.directories.len());
                        tree.directories.push(Directory::default());
                        let (dir, name) = tree.parent(&names[..depth])?;
                        dir.change(Change::Link(name.to_owned(), node));
                    }
                }
            }
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.with_tree(dir, "sync the directory", |tree, names| {
            tree.directory(names)?.sync();
            Ok(())
        })
    }

    fn free_bytes(&self, _dir: &Path) -> Result<Option<u64>> {
        Ok(lock(&self.tree).free_bytes())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let key = self.with_tree(path, "lock", |tree, names| {
            let (dir, name) = tree.parent(names)?;
            if !dir.now.contains_key(name) {
                dir.change(Change::Link(name.to_owned(), Node::File(FileNode::default())));
            }
            let key = names.join("/");
            Ok(tree.held_locks.insert(key.clone()).then_some(key))
        })?;
        let key = key.ok_or_else(|| Error::Locked { path: parent(path).to_owned() })?;
        Ok(Box::new(MemFileLock { key, tree: Arc::clone(&self.tree) }))
    }
}

#[derive(Debug)]
struct MemWritableFile {
    path: PathBuf,
    tree: Arc<Mutex<FileTree, rank::MemTree>>,
    file: FileNode,
    buffer: Vec<u8>,
    flushed_bytes: u64,
}

impl Drop for MemWritableFile {
    fn drop(&mut self) {
        let _tree = lock(&self.tree);
        lock(&self.file).zeros_behind = 0;
    }
}

impl MemWritableFile {
    /// Passes the first `count` bytes of the buffer to the file.
    fn write(&mut self, count: usize) -> Result<()> {
        let tree = lock(&self.tree);
        if tree.free_bytes().is_some_and(|free| free < count as u64) {
            return Err(Error::io(&self.path, "write", ErrorKind::StorageFull.into()));
        }
        Arc::make_mut(&mut lock(&self.file).bytes).extend_from_slice(&self.buffer[..count]);
        self.buffer.drain(..count);
        self.flushed_bytes += count as u64;
        Ok(())
    }
}

impl WritableFile for MemWritableFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() > WRITE_BUFFER_BYTES {
            // The last byte stays for `flush`, so that a record is never whole in the file when its
            // flush fails.
            self.write(self.buffer.len() - 1)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.write(self.buffer.len())
    }

    fn discard_unflushed(&mut self) -> Result<()> {
        self.buffer.clear();
        let _tree = lock(&self.tree);
        lock(&self.file).zeros_behind = 0;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        let _tree = lock(&self.tree);
        let mut file = lock(&self.file);
        file.synced_bytes = file.bytes.len();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.flushed_bytes + self.buffer.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug)]
struct MemRandomAccessFile {
    path: PathBuf,
    file: FileNode,
    len: u64,
}

impl RandomAccessFile for MemRandomAccessFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let file = lock(&self.file);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = file.bytes.get(start..).unwrap_or_default();
        let Some(found) = rest.get(..buffer.len()) else {
            return Err(past_end(&self.path, offset, buffer.len(), rest.len() as u64));
        };
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn waits_for_device(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct MemFileLock {
    key: String,
    tree: Arc<Mutex<FileTree, rank::MemTree>>,
}

impl FileLock for MemFileLock {}

impl Drop for MemFileLock {
    fn drop(&mut self) {
        lock(&self.tree).held_locks.remove(&self.key);
    }
}

/// The names in a path, from the root on.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str().ok_or(ErrorKind::InvalidInput)?),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}
