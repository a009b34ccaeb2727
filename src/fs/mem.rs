//! A file system in memory that can lose power.
//!
//! ```text
//! Tree (one mutex: every change happens under it, so that an image is one moment)
//!   directories, by id; 0 is the root
//!     Directory   now: name → node     durable: name → node     pending: changes since sync_dir
//!   File          bytes, of which the first synced_bytes are durable
//! ```
//!
//! [`MemFs::crash`] makes an image that a power loss may leave. It is as bad as POSIX permits:
//!
//! * Of the unsynced bytes of a file each block of 4 KiB survives or not, independently of the
//!   others. The length may have grown without them: then they read as zeros or, sometimes, as
//!   bytes that stand elsewhere in the file.
//! * Each unsynced change to a directory survives or not, independently of the others. A rename
//!   within one directory is one change.
//! * Synced bytes survive wherever a name leads to them.
//!
//! Bytes that were appended but not flushed are in the buffer of the process: they are in no image.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{FileLock, Fs, RandomAccessFile, WRITE_BUFFER_BYTES, WritableFile, parent, past_end};
use crate::error::{Error, Result};

/// What survives a power loss as a whole.
const BLOCK_BYTES: usize = 4 << 10;

/// A file system in memory. Clones share it.
///
/// Paths start at one root, whether they begin with `/` or not; `..` is refused. Directories can
/// be renamed only within their parent.
#[derive(Debug, Clone, Default)]
pub struct MemFs {
    tree: Arc<Mutex<Tree>>,
}

impl MemFs {
    /// An empty file system.
    pub fn new() -> MemFs {
        MemFs::default()
    }

    /// What a power loss at this moment may leave; `seed` decides. All that is in it is durable.
    pub fn crash(&self, seed: u64) -> MemFs {
        let mut loss = PowerLoss::new(seed);
        let directories =
            lock(&self.tree).directories.iter().map(|dir| loss.directory(dir)).collect();
        MemFs::from_directories(directories)
    }

    /// What remains when the process is killed and the system lives on: everything that was
    /// flushed. What was not synced still is not, and a crash of the image can take it.
    pub fn kill(&self) -> MemFs {
        let directories = lock(&self.tree).directories.iter().map(Directory::detached).collect();
        MemFs::from_directories(directories)
    }

    fn from_directories(directories: Vec<Directory>) -> MemFs {
        MemFs { tree: Arc::new(Mutex::new(Tree { directories, held_locks: BTreeSet::new() })) }
    }

    /// Runs `body` on the tree and the names in `path`; what fails names the path and the operation.
    fn with_tree<T>(
        &self,
        path: &Path,
        operation: &'static str,
        body: impl FnOnce(&mut Tree, &[&str]) -> io::Result<T>,
    ) -> Result<T> {
        names(path)
            .and_then(|names| body(&mut lock(&self.tree), &names))
            .map_err(|error| Error::io(path, operation, error))
    }
}

impl Fs for MemFs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = FileNode::default();
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
struct Tree {
    directories: Vec<Directory>,
    held_locks: BTreeSet<String>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { directories: vec![Directory::default()], held_locks: BTreeSet::new() }
    }
}

impl Tree {
    fn node(&self, names: &[&str]) -> io::Result<Node> {
        let mut node = Node::Directory(0);
        for &name in names {
            let Node::Directory(id) = node else { return Err(ErrorKind::NotADirectory.into()) };
            node = self.directories[id].now.get(name).ok_or(ErrorKind::NotFound)?.clone();
        }
        Ok(node)
    }

    fn directory(&mut self, names: &[&str]) -> io::Result<&mut Directory> {
        match self.node(names)? {
            Node::Directory(id) => Ok(&mut self.directories[id]),
            Node::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// The directory that holds the last of `names`, and that name.
    fn parent<'a>(&mut self, names: &[&'a str]) -> io::Result<(&mut Directory, &'a str)> {
        let (name, dirs) = names.split_last().ok_or(ErrorKind::IsADirectory)?;
        Ok((self.directory(dirs)?, name))
    }
}

type Entries = BTreeMap<String, Node>;

#[derive(Debug, Default)]
struct Directory {
    now: Entries,
    durable: Entries,
    /// What leads from `durable` to `now`, in order.
    pending: Vec<Change>,
}

impl Directory {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    fn sync(&mut self) {
        self.pending.drain(..).for_each(|change| change.apply(&mut self.durable));
    }

    /// A copy that shares no file with this one.
    fn detached(&self) -> Directory {
        let entries = |entries: &Entries| {
            entries.iter().map(|(name, node)| (name.clone(), node.detached())).collect()
        };
        Directory {
            now: entries(&self.now),
            durable: entries(&self.durable),
            pending: self.pending.iter().map(Change::detached).collect(),
        }
    }
}

#[derive(Debug)]
enum Change {
    Link(String, Node),
    Unlink(String),
    Rename { from: String, to: String, node: Node },
}

impl Change {
    fn apply(&self, entries: &mut Entries) {
        match self {
            Change::Link(name, node) => {
                entries.insert(name.clone(), node.clone());
            }
            Change::Unlink(name) => {
                entries.remove(name);
            }
            Change::Rename { from, to, node } => {
                entries.remove(from);
                entries.insert(to.clone(), node.clone());
            }
        }
    }

    fn detached(&self) -> Change {
        match self {
            Change::Link(name, node) => Change::Link(name.clone(), node.detached()),
            Change::Unlink(name) => Change::Unlink(name.clone()),
            Change::Rename { from, to, node } => {
                Change::Rename { from: from.clone(), to: to.clone(), node: node.detached() }
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Node {
    File(FileNode),
    Directory(usize),
}

impl Node {
    fn detached(&self) -> Node {
        match self {
            Node::File(file) => Node::File(Arc::new(Mutex::new(lock(file).clone()))),
            Node::Directory(id) => Node::Directory(*id),
        }
    }
}

/// Outlives its names: open handles hold it. Its mutex is taken after the tree's.
type FileNode = Arc<Mutex<File>>;

#[derive(Debug, Clone, Default)]
struct File {
    /// Images share it until the file grows.
    bytes: Arc<Vec<u8>>,
    synced_bytes: usize,
}

/// Decides what a power loss leaves.
struct PowerLoss {
    random: u64,
    block_survival_tenths: u64,
    change_survival_tenths: u64,
}

impl PowerLoss {
    fn new(seed: u64) -> PowerLoss {
        let mut loss =
            PowerLoss { random: seed, block_survival_tenths: 0, change_survival_tenths: 0 };
        // Losing all and losing nothing are cases of their own: a coin a block rarely finds them.
        let odds = [0, 2, 5, 8, 10];
        loss.block_survival_tenths = odds[loss.below(odds.len())];
        loss.change_survival_tenths = odds[loss.below(odds.len())];
        loss
    }

    fn directory(&mut self, directory: &Directory) -> Directory {
        let mut entries = directory.durable.clone();
        for change in &directory.pending {
            if self.happens(self.change_survival_tenths) {
                change.apply(&mut entries);
            }
        }
        for node in entries.values_mut() {
            if let Node::File(file) = node {
                let left = self.file(&lock(file));
                *node = Node::File(Arc::new(Mutex::new(left)));
            }
        }
        Directory { now: entries.clone(), durable: entries, pending: Vec::new() }
    }

    fn file(&mut self, file: &File) -> File {
        let mut len = file.bytes.len();
        if len == file.synced_bytes {
            return file.clone();
        }
        if self.happens(5) {
            len = file.synced_bytes + self.below(len - file.synced_bytes + 1);
        }
        let mut bytes = file.bytes[..len].to_vec();
        let mut start = file.synced_bytes;
        while start < len {
            let end = ((start / BLOCK_BYTES + 1) * BLOCK_BYTES).min(len);
            if !self.happens(self.block_survival_tenths) {
                bytes[start..end].fill(0);
                if self.happens(2) {
                    let stale = self.below(start + 1);
                    bytes[start..end].copy_from_slice(&file.bytes[stale..stale + end - start]);
                }
            }
            start = end;
        }
        File { bytes: Arc::new(bytes), synced_bytes: len }
    }

    fn happens(&mut self, tenths: u64) -> bool {
        (self.below(10) as u64) < tenths
    }

    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), reduced to `0..bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

#[derive(Debug)]
struct MemWritableFile {
    path: PathBuf,
    tree: Arc<Mutex<Tree>>,
    file: FileNode,
    buffer: Vec<u8>,
    flushed_bytes: u64,
}

impl WritableFile for MemWritableFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() > WRITE_BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let _tree = lock(&self.tree);
        Arc::make_mut(&mut lock(&self.file).bytes).extend_from_slice(&self.buffer);
        self.flushed_bytes += self.buffer.len() as u64;
        self.buffer.clear();
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
}

#[derive(Debug)]
struct MemFileLock {
    key: String,
    tree: Arc<Mutex<Tree>>,
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

/// A panic under the mutex, in a test's hook say, leaves no half change behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
