//! Loads a saved [`ScalableBloom`], piece by piece.
//!
//! The pieces are input: they may be any bytes. The length of the payload follows from the header,
//! and nothing is allocated for the payload before it arrives.

use alloc::vec::Vec;

use super::super::shared::{Damaged, Full, as_words, checksum};
use super::{HEADER_BYTES, MAX_LAYERS, Options, ScalableBloom, Version};

/// A saved filter that is being loaded. It allocates memory only for pieces that it was given.
///
/// ```
/// use maypole_filter::textbook::scalable::loading::Loading;
/// use maypole_filter::textbook::scalable::{Options, ScalableBloom};
///
/// let mut filter = ScalableBloom::new(Options::default()).expect("the defaults are lawful");
/// filter.add(7).expect("there is room");
/// let mut loading = Loading::new(&filter.save_header())?;
/// loading.push(0, &filter.save_piece(0, usize::MAX))?;
/// assert!(loading.finish()?.contains(7));
/// # Ok::<(), maypole_filter::textbook::Damaged>(())
/// ```
pub struct Loading {
    options: Options,
    version: Version,
    items: Vec<u64>,
    /// The header's words, except the checksum.
    header: Vec<u64>,
    checksum: u64,
    pub(super) payload_bytes: u64,
    pub(super) payload: Vec<u8>,
}

impl Loading {
    /// Starts with the header, which may be any bytes.
    ///
    /// # Errors
    ///
    /// [`Damaged`] if the bytes are not a header.
    pub fn new(header: &[u8]) -> Result<Loading, Damaged> {
        let (head, items) = header.split_at_checked(HEADER_BYTES).ok_or(Damaged("too short"))?;
        let version = [Version::One, Version::Two];
        let version = version.into_iter().find(|version| head.starts_with(&version.magic()));
        let version = version.ok_or(Damaged("another format"))?;
        if items.len() % 8 != 0 {
            return Err(Damaged("another format"));
        }
        let [first, capacity, rate, checksum] = as_words(head)[..] else {
            return Err(Damaged("too short"));
        };
        let expansion = Some((first >> 32) as u32).filter(|&expansion| expansion != 0);
        let options = Options { capacity, rate: f64::from_bits(rate), expansion };
        let (items, mut payload_bytes) = (as_words(items), 0u64);
        if options.fault().is_some() || items.is_empty() || items.len() > MAX_LAYERS {
            return Err(Damaged("impossible options"));
        }
        for (i, &count) in items.iter().enumerate() {
            let (capacity, rate) = options.layer(i).ok_or(Damaged("too many layers"))?;
            if count > capacity || (i + 1 < items.len() && count < capacity) {
                return Err(Damaged("a layer holds too many keys or too few"));
            }
            let (bits, _) = version.shape(capacity, rate);
            let bytes = payload_bytes.checked_add(8 * bits.div_ceil(64) as u64);
            payload_bytes = bytes.ok_or(Damaged("impossible options"))?;
        }
        let mut header = as_words(header);
        header.remove(3);
        let payload = Vec::new();
        Ok(Loading { options, version, items, header, checksum, payload_bytes, payload })
    }

    /// Takes the piece that starts at `offset` of the payload. Pieces must come in order.
    ///
    /// # Errors
    ///
    /// [`Damaged`] if the piece is empty or too long, if it does not follow the pieces taken so
    /// far, or if memory is short.
    pub fn push(&mut self, offset: u64, piece: &[u8]) -> Result<(), Damaged> {
        let loaded = self.payload.len() as u64;
        if offset != loaded || piece.is_empty() || piece.len() as u64 > self.payload_bytes - loaded
        {
            return Err(Damaged("a piece out of its order"));
        }
        let room = self.payload.try_reserve(piece.len());
        room.map_err(|_| Damaged("it does not fit into memory"))?;
        self.payload.extend(piece);
        Ok(())
    }

    /// Whether no piece is missing.
    pub fn is_complete(&self) -> bool {
        self.payload.len() as u64 == self.payload_bytes
    }

    /// The filter, once it is complete.
    ///
    /// # Errors
    ///
    /// [`Damaged`] if pieces are missing, the checksum differs, or memory is short.
    pub fn finish(&self) -> Result<ScalableBloom, Damaged> {
        let mut words = self.header.clone();
        words.extend(as_words(&self.payload));
        if !self.is_complete() || checksum(&words) != self.checksum {
            return Err(Damaged("the checksum differs"));
        }
        words.drain(..self.header.len());
        let Loading { options, version, .. } = *self;
        let mut filter = ScalableBloom { options, version, layers: Vec::new() };
        for &items in &self.items {
            filter.grow().map_err(|Full| Damaged("it does not fit into memory"))?;
            let layer = filter.layers.last_mut().ok_or(Damaged("no layer"))?;
            let rest = words.split_off(layer.filter.words().len());
            layer.filter.restore(words)?;
            layer.items = items;
            words = rest;
        }
        Ok(filter)
    }
}
