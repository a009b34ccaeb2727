//! What the bytes of a table file mean, except the entries of its blocks ([`super::block`]).

pub(crate) mod checksum;
pub(crate) mod compression;
pub(crate) mod file;
pub(crate) mod footer;
pub(crate) mod identity;
pub(crate) mod limits;
pub(crate) mod padding;
pub(crate) mod properties;
