//! The rule by which every command recommends a filter: `compare`, the calculator of its page,
//! `advise` and `size`. It is a pure function of a [`Situation`]: it measures nothing, and the same
//! figures give the same recommendation everywhere.
//!
//! ```text
//! time        data blocks that a mean lookup reads · the cost of a read
//! loss        the time that a filter needs more than the fastest one
//! slack       the loss that is allowed: 1.5 % of what the fastest filter saves, but at least 0.5 µs
//! take        of the filters within the slack, the smallest; but the usual one, Bloom with 10 bits,
//!             if it is not larger by 1 MiB
//! keep        what there is, while its loss is within twice the slack, and no other filter that is
//!             as fast takes 1 MiB and 5 % less memory
//! prices      what saves less than 10 dollars a month is no reason for another filter
//! ```
//!
//! Whoever follows the recommendation and asks again is told to keep what there is. This holds
//! because [`Rule::choose`] does not depend on what there is, because [`Rule::shrink`] repeats its
//! step until no step is left, and because what is kept may lose more time than what is taken.
//! `tests` shows it on random situations.

#[cfg(test)]
mod tests;
pub mod words;

/// A filter must save a lookup at least this much time, in microseconds.
pub const LEAST_MICROS: f64 = 0.5;
/// A filter must save at least this much memory.
pub const LEAST_BYTES: f64 = (1 << 20) as f64;
/// What is there is replaced by a smaller filter only if that saves at least this share of it,
/// because tables must be rewritten for it.
const LEAST_SHARE: f64 = 0.05;
/// A filter must save at least this much money, in dollars a month.
pub const LEAST_DOLLARS: f64 = 10.0;
/// A filter saves enough if it saves at least this share of what the fastest filter saves.
const ENOUGH: f64 = 0.985;
/// A smaller filter counts as equally fast if its loss is at most this many times as large.
const AS_FAST: f64 = 1.1;
/// Sizes that differ by at most this share count as equal.
const SAME_SIZE: f64 = 0.01;
/// The filter that is suggested if memory is short takes at least this share less memory, and saves
/// at least the second share of what the fastest filter saves.
const MUCH_LESS: f64 = 0.1;
const HALF: f64 = 0.5;
/// The largest tree, as a multiple of the measured one, for which another filter is suggested.
const MAX_GROWTH: f64 = (1u64 << 20) as f64;

/// A measured or computed figure, and the bounds of its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// A figure without an interval.
    pub fn exact(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// Whether the intervals overlap.
    pub fn is_tied_with(&self, other: &Estimate) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// The mean of a share `share` of `self` and of the rest of `other`.
    fn mixed(&self, share: f64, other: &Estimate) -> Estimate {
        let mix = |a: f64, b: f64| share * a + (1.0 - share) * b;
        Estimate {
            value: mix(self.value, other.value),
            low: mix(self.low, other.low),
            high: mix(self.high, other.high),
        }
    }
}

/// The filters that one policy makes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    pub name: String,
    /// The memory of all filters.
    pub bytes: f64,
    /// The data blocks that a lookup of an absent key reads, and one of a present key.
    pub absent: Estimate,
    pub present: Estimate,
    pub is_for_rocksdb: bool,
    /// Whether it is the usual filter: Bloom with 10 bits a key, which new databases have. It is
    /// preferred to filters that are not better by the least amounts, because it needs no reason.
    pub is_usual: bool,
    pub build_seconds: Option<f64>,
}

/// What lookups and memory cost, in dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    pub lookups_a_second: f64,
    pub million_reads: f64,
    pub gib_and_month: f64,
}

/// All that the rule knows.
#[derive(Debug, Clone, Default)]
pub struct Situation {
    pub keys: f64,
    /// The filters to choose from.
    pub filters: Vec<Filter>,
    /// The same lookups without filters.
    pub without: Filter,
    /// What there is now; `None` if that is not known.
    pub now: Option<Filter>,
    /// The share of absent keys among the lookups. If it is not known, only lookups of absent keys
    /// count.
    pub share_absent: Option<f64>,
    /// The cost of a read, in microseconds.
    pub read_micros: f64,
    /// Whether RocksDB must be able to read the filters.
    pub must_suit_rocksdb: bool,
    pub prices: Option<Prices>,
}

/// A reason for another filter than the recommended one.
#[derive(Debug, Clone, PartialEq)]
pub enum Unless<'a> {
    RocksDb(&'a Filter),
    /// Memory is short: the filter takes this share less.
    ShortMemory(&'a Filter, f64),
    /// So many microseconds of a lookup are worth so many bytes.
    Faster(&'a Filter, f64, f64),
    /// There will be at least this many keys.
    MoreKeys(&'a Filter, f64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation<'a> {
    /// Either one of the filters, or [`Situation::without`], or what there is.
    pub take: &'a Filter,
    /// Whether this is what there is.
    pub is_kept: bool,
    /// The microseconds that a lookup saves, compared with no filters.
    pub saved_micros: f64,
    pub unless: Vec<Unless<'a>>,
}

pub fn recommend(s: &Situation) -> Recommendation<'_> {
    let rule = Rule::of(s);
    let (take, is_kept) = rule.decide();
    let saved_micros = rule.micros(&s.without) - rule.micros(take);
    let unless = if take.bytes > 0.0 { rule.unless(take) } else { Vec::new() };
    Recommendation { take, is_kept, saved_micros, unless }
}

/// What [`recommend`] takes, without the reasons for other filters.
pub fn choice(s: &Situation) -> &Filter {
    Rule::of(s).decide().0
}

impl Situation {
    /// The data blocks that a mean lookup reads.
    pub fn reads(&self, of: &Filter) -> Estimate {
        of.absent.mixed(self.share_absent.unwrap_or(1.0), &of.present)
    }

    /// The same tree with `times` as many keys.
    pub fn grown(&self, times: f64) -> Situation {
        let mut grown = self.clone();
        grown.keys *= times;
        grown.filters.iter_mut().for_each(|filter| filter.bytes *= times);
        grown
    }
}

impl Prices {
    const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

    /// What the filters and the reads cost, in dollars a month.
    pub fn dollars(&self, bytes: f64, reads: f64) -> f64 {
        let lookups = self.lookups_a_second * Self::MONTH_SECONDS;
        bytes / f64::from(1 << 30) * self.gib_and_month + lookups * reads * self.million_reads / 1e6
    }
}

/// Whether two sizes count as equal.
pub fn is_same_size(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME_SIZE * a.max(b)
}

/// The rule, with the figures that it needs at every step.
struct Rule<'a> {
    s: &'a Situation,
    /// The filters that may be taken, no filter included, the smallest first.
    all: Vec<&'a Filter>,
    /// The fewest blocks that a lookup reads.
    best: Estimate,
    slack: f64,
}

impl<'a> Rule<'a> {
    fn of(s: &'a Situation) -> Rule<'a> {
        let may = |filter: &&Filter| filter.is_for_rocksdb || !s.must_suit_rocksdb;
        let mut all: Vec<&Filter> = s.filters.iter().filter(may).collect();
        all.push(&s.without);
        all.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        let reads = all.iter().map(|filter| s.reads(filter));
        let best = reads.min_by(|a, b| a.value.total_cmp(&b.value)).unwrap_or_default();
        let saved = (s.reads(&s.without).value - best.value) * s.read_micros;
        Rule { s, all, best, slack: LEAST_MICROS.max((1.0 - ENOUGH) * saved) }
    }

    fn micros(&self, of: &Filter) -> f64 {
        self.s.reads(of).value * self.s.read_micros
    }

    fn loss(&self, of: &Filter) -> f64 {
        self.micros(of) - self.best.value * self.s.read_micros
    }

    fn is_as_fast_as_the_best(&self, of: &Filter) -> bool {
        self.s.reads(of).is_tied_with(&self.best)
    }

    /// What to take, and whether that is what there is.
    fn decide(&self) -> (&'a Filter, bool) {
        if let Some(prices) = self.s.prices {
            return self.by_money(&prices);
        }
        let Some(now) = &self.s.now else { return (self.choose(), false) };
        let take = match self.is_enough(now) {
            true => self.shrink(now),
            false => Some(self.choose()).filter(|take| self.is_worth_it(now, take)),
        };
        take.map_or((now, true), |take| (take, false))
    }

    /// What is there, or what would be chosen without prices, unless another filter is cheaper by
    /// the least amount of money.
    fn by_money(&self, prices: &Prices) -> (&'a Filter, bool) {
        let dollars = |of: &Filter| prices.dollars(of.bytes, self.s.reads(of).value);
        let kept = match &self.s.now {
            Some(now) => now,
            None => self.choose(),
        };
        let cheapest = self.all.iter().min_by(|a, b| dollars(a).total_cmp(&dollars(b)));
        match cheapest.filter(|of| dollars(kept) - dollars(of) >= LEAST_DOLLARS) {
            Some(cheapest) => (cheapest, false),
            None => (kept, self.s.now.is_some()),
        }
    }

    /// Whether what is there is fast enough.
    fn is_enough(&self, now: &Filter) -> bool {
        self.loss(now) <= 2.0 * self.slack || self.is_as_fast_as_the_best(now)
    }

    /// Whether another filter saves the least amount of time or of memory.
    fn is_worth_it(&self, now: &Filter, other: &Filter) -> bool {
        let is_faster = self.micros(now) - self.micros(other) >= LEAST_MICROS;
        let is_tied = self.s.reads(now).is_tied_with(&self.s.reads(other));
        is_faster && !is_tied || is_smaller(other, now)
    }

    /// What to take if it is not known what there is.
    fn choose(&self) -> &'a Filter {
        let is_eligible =
            |of: &Filter| self.loss(of) <= self.slack || self.is_as_fast_as_the_best(of);
        let eligible = || self.all.iter().copied().filter(|of| is_eligible(of));
        let Some(smallest) = eligible().next().filter(|of| of.bytes > 0.0) else {
            return &self.s.without;
        };
        let is_usual = |of: &&Filter| of.is_usual && of.bytes - smallest.bytes < LEAST_BYTES;
        let take = eligible().find(is_usual).unwrap_or_else(|| {
            self.fastest(eligible().filter(|of| is_same_size(of.bytes, smallest.bytes)), smallest)
        });
        self.shrink(take).unwrap_or(take)
    }

    /// The first of `filters` whose reads cannot be told from the fewest. The order decides between
    /// filters that are tied.
    fn fastest(&self, filters: impl Iterator<Item = &'a Filter>, or: &'a Filter) -> &'a Filter {
        let filters: Vec<&Filter> = filters.collect();
        let reads = |of: &Filter| self.s.reads(of);
        let fewest = filters.iter().map(|of| reads(of));
        let fewest = fewest.min_by(|a, b| a.value.total_cmp(&b.value)).unwrap_or_default();
        filters.into_iter().find(|of| reads(of).is_tied_with(&fewest)).unwrap_or(or)
    }

    /// The smallest filter that is as fast as `now`; `None` if none is smaller by the least amount.
    ///
    /// Each step may lose a little time, so that the filter of the last step is the one to take:
    /// otherwise the next call would recommend the next step.
    fn shrink(&self, now: &Filter) -> Option<&'a Filter> {
        let mut taken = None;
        while let Some(next) = self.step(taken.unwrap_or(now)) {
            taken = Some(next);
        }
        taken
    }

    fn step(&self, from: &Filter) -> Option<&'a Filter> {
        let loss = self.loss(from);
        let limit = loss.max(LEAST_MICROS).max(self.slack.min(AS_FAST * loss));
        let may =
            |of: &&Filter| self.loss(of) <= limit && self.is_enough(of) && is_smaller(of, from);
        let smallest = *self.all.iter().find(|of| may(of))?;
        let same = self.all.iter().copied().filter(may);
        let same = same.filter(|of| is_same_size(of.bytes, smallest.bytes));
        Some(self.fastest(same, smallest))
    }

    fn unless(&self, take: &'a Filter) -> Vec<Unless<'a>> {
        let mut unless = Vec::new();
        let with_filters = || self.all.iter().copied().filter(|of| of.bytes > 0.0);
        if !take.is_for_rocksdb && with_filters().any(|of| of.is_for_rocksdb) {
            let suiting = Situation { must_suit_rocksdb: true, now: None, ..self.s.clone() };
            let name = Rule::of(&suiting).choose().name.clone();
            let other = with_filters().find(|of| of.name == name);
            unless.extend(other.map(Unless::RocksDb));
        }
        let without = self.micros(&self.s.without);
        let best = without - self.best.value * self.s.read_micros;
        let is_much_smaller = |of: &&Filter| {
            of.bytes <= (1.0 - MUCH_LESS) * take.bytes
                && take.bytes - of.bytes >= LEAST_BYTES
                && without - self.micros(of) >= HALF * best
        };
        if let Some(smaller) = with_filters().rfind(is_much_smaller) {
            unless.push(Unless::ShortMemory(smaller, 1.0 - smaller.bytes / take.bytes));
        }
        let gain = |of: &Filter| self.micros(take) - self.micros(of);
        let is_tied = |of: &Filter| self.s.reads(of).is_tied_with(&self.s.reads(take));
        let is_better = |of: &&Filter| gain(of) >= LEAST_MICROS && !is_tied(of);
        if let Some(better) = with_filters().find(is_better) {
            let more = (better.bytes - take.bytes).max(0.0);
            unless.push(Unless::Faster(better, gain(better), more));
        }
        unless.extend(self.grown(take));
        unless
    }

    /// The first number of keys, as far as it is known, from which on another filter is to be taken.
    fn grown(&self, take: &Filter) -> Option<Unless<'a>> {
        if self.s.now.is_some() || self.s.prices.is_some() {
            return None;
        }
        let choice = |times: f64| {
            let grown = self.s.grown(times);
            let name = Rule::of(&grown).choose().name.clone();
            (name != take.name).then_some(name)
        };
        choice(MAX_GROWTH)?;
        let (mut low, mut high) = (0.0, MAX_GROWTH.log2());
        for _ in 0..30 {
            let middle = (low + high) / 2.0f64;
            if choice(middle.exp2()).is_some() { high = middle } else { low = middle }
        }
        let name = choice(high.exp2())?;
        let filter = self.all.iter().find(|of| of.name == name)?;
        Some(Unless::MoreKeys(filter, self.s.keys * high.exp2()))
    }
}

/// Whether `other` is smaller than `now` by the least amount.
fn is_smaller(other: &Filter, now: &Filter) -> bool {
    now.bytes - other.bytes >= LEAST_BYTES.max(LEAST_SHARE * now.bytes)
}

/// Which of several times is the shortest.
#[derive(Debug, Clone, PartialEq)]
pub enum Ranking {
    /// The time at this position is shorter than every other one.
    Fastest(usize),
    /// The times at these positions cannot be told apart from the shortest, which is the first of
    /// them: the rounds of each vary more than they differ.
    Noise(Vec<usize>),
}

/// Ranks times by their medians. `None` if there are fewer than two.
pub fn rank(times: &[Estimate]) -> Option<Ranking> {
    let least = (0..times.len()).min_by(|&a, &b| times[a].value.total_cmp(&times[b].value))?;
    let others = (0..times.len()).filter(|&i| i != least);
    let tied: Vec<usize> = others.filter(|&i| times[i].is_tied_with(&times[least])).collect();
    match (times.len(), tied.is_empty()) {
        (0 | 1, _) => None,
        (_, true) => Some(Ranking::Fastest(least)),
        (_, false) => Some(Ranking::Noise([vec![least], tied].concat())),
    }
}
