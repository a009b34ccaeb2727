//! Files and directories in memory, in their current state and in their durable state.
//!
//! ```text
//! FileTree (one mutex: every change is made under it, so that an image shows one moment)
//!   directories, by id; 0 is the root
//!     Directory   now: name → node     durable: name → node     pending: changes since sync_dir
//!   File          bytes, of which the first synced_bytes are durable
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;

use crate::sync::{Mutex, lock, rank};

#[derive(Debug)]
pub struct FileTree {
    pub directories: Vec<Directory>,
    pub held_locks: BTreeSet<String>,
    /// The most bytes that all files together may have; `None` if there is no limit.
    pub capacity_bytes: Option<u64>,
}

impl Default for FileTree {
    fn default() -> FileTree {
        FileTree::from(vec![Directory::default()])
    }
}

impl From<Vec<Directory>> for FileTree {
    /// The tree of an image. It has no held locks, because the process that held them is gone, and
    /// no limit on its bytes.
    fn from(directories: Vec<Directory>) -> FileTree {
        FileTree { directories, held_locks: BTreeSet::new(), capacity_bytes: None }
    }
}

impl FileTree {
    pub fn node(&self, names: &[&str]) -> io::Result<Node> {
        let mut node = Node::Directory(0);
        for &name in names {
            let Node::Directory(id) = node else { return Err(ErrorKind::NotADirectory.into()) };
            node = self.directories[id].now.get(name).ok_or(ErrorKind::NotFound)?.clone();
        }
        Ok(node)
    }

    pub fn directory(&mut self, names: &[&str]) -> io::Result<&mut Directory> {
        match self.node(names)? {
            Node::Directory(id) => Ok(&mut self.directories[id]),
            Node::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// How many more bytes the files may take; `None` if there is no limit. A file with two names
    /// counts twice, and one without a name not at all.
    pub fn free_bytes(&self) -> Option<u64> {
        let nodes = || self.directories.iter().flat_map(|directory| directory.now.values());
        let bytes = |node: &Node| match node {
            Node::File(file) => lock(file).bytes.len() as u64,
            Node::Directory(_) => 0,
        };
        let capacity = self.capacity_bytes?;
        Some(capacity.saturating_sub(nodes().map(bytes).sum()))
    }

    /// The directory that holds the last of `names`, and that name.
    pub fn parent<'a>(&mut self, names: &[&'a str]) -> io::Result<(&mut Directory, &'a str)> {
        let (name, dirs) = names.split_last().ok_or(ErrorKind::IsADirectory)?;
        Ok((self.directory(dirs)?, name))
    }
}

pub type Entries = BTreeMap<String, Node>;

#[derive(Debug, Default)]
pub struct Directory {
    pub now: Entries,
    pub durable: Entries,
    /// The changes that lead from `durable` to `now`, in order.
    pub pending: Vec<Change>,
}

impl Directory {
    pub fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    pub fn sync(&mut self) {
        self.pending.drain(..).for_each(|change| change.apply(&mut self.durable));
    }

    /// A copy that shares no file with this one.
    pub fn detached(&self) -> Directory {
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
pub enum Change {
    Link(String, Node),
    Unlink(String),
    Rename { from: String, to: String, node: Node },
}

impl Change {
    pub fn apply(&self, entries: &mut Entries) {
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
pub enum Node {
    File(FileNode),
    Directory(usize),
}

impl Node {
    fn detached(&self) -> Node {
        match self {
            Node::File(file) => Node::File(Arc::new(Mutex::new(lock(file).abandoned()))),
            Node::Directory(id) => Node::Directory(*id),
        }
    }
}

/// A file, which open handles keep alive after its name is removed. A thread that locks both the
/// tree and a file locks the tree first.
pub type FileNode = Arc<Mutex<File, rank::MemFile>>;

#[derive(Debug, Clone, Default)]
pub struct File {
    /// Shared with images until the file grows.
    pub bytes: Arc<Vec<u8>>,
    pub synced_bytes: usize,
    /// The number of zeros that follow the bytes in an image; 0 unless the file is a log that is
    /// being written.
    pub zeros_behind: usize,
}

impl File {
    /// The file after its writer is gone: the zeros that follow the bytes are a part of the file.
    pub fn abandoned(&self) -> File {
        let mut file = File { zeros_behind: 0, ..self.clone() };
        if self.zeros_behind > 0 {
            let len = file.bytes.len() + self.zeros_behind;
            Arc::make_mut(&mut file.bytes).resize(len, 0);
        }
        file
    }
}
