//! [`Cut`]: the tables of all keyspaces at one moment, with every write up to one number and no later
//! one.

use std::sync::Arc;

use super::tree::Tree;
use crate::db::read_state::ReadState;
use crate::encoding::key::SequenceNumber;
use crate::version::{KeyspaceId, KeyspaceRecord};

/// See the module.
pub(crate) struct Cut {
    /// The trees, keyspace 0 first.
    pub trees: Vec<(Arc<Tree>, Arc<ReadState>)>,
    /// The keyspaces other than 0, and the number of the next new one.
    pub keyspaces: (Vec<KeyspaceRecord>, Option<KeyspaceId>),
    pub last_sequence: SequenceNumber,
}
