//! A recommendation in words and as JSON.

use serde_json::json;

use super::{
    Estimate, Filter, LEAST_BYTES, LEAST_MICROS, Ranking, Recommendation, Situation, Unless,
};
use crate::output::{json_list, object};
use crate::show::text::{count, percent, size};

/// The recommendation in one sentence: what to take, what that saves, what it costs, and when not
/// to. Without its full stop.
pub fn sentence(s: &Situation, of: &Recommendation) -> String {
    let take = of.take;
    let lookup = match s.share_absent {
        None => "each absent lookup",
        Some(_) => "a mean lookup",
    };
    if take.bytes <= 0.0 {
        let least = micros(LEAST_MICROS);
        return match s.without.bytes == take.bytes && of.is_kept {
            true => format!("Keep it without filters: none saves {lookup} {least}"),
            false => format!("Take none: no filter saves {lookup} {least}"),
        };
    }
    let verb = if of.is_kept { "Keep" } else { "Take" };
    let build = match take.build_seconds.filter(|seconds| *seconds >= 1.0) {
        Some(build) => format!(" and {} of building", seconds(build)),
        None => String::new(),
    };
    format!(
        "{verb} {}: it saves {lookup} {} and costs {} of memory{build}{}",
        take.name,
        micros(of.saved_micros),
        size(take.bytes as u64),
        unless(&of.unless)
    )
}

/// `, unless A, B or C`; empty if there is no reason for another filter.
fn unless(all: &[Unless]) -> String {
    let all: Vec<String> = all.iter().map(|unless| reason(unless)).collect();
    match all.split_last() {
        None => String::new(),
        Some((last, [])) => format!(", unless {last}"),
        Some((last, first)) => format!(", unless {} or {last}", first.join(", ")),
    }
}

/// `memory is short (then burr(4), which takes 42.4 % less)`
pub fn reason(unless: &Unless) -> String {
    match unless {
        Unless::RocksDb(other) => format!("RocksDB is to use the filters (then {})", other.name),
        Unless::ShortMemory(other, less) => {
            format!("memory is short (then {}, which takes {} less)", other.name, percent(*less))
        }
        Unless::Faster(other, gain, more) if *more < LEAST_BYTES => {
            format!("{} a lookup matter (then {})", micros(*gain), other.name)
        }
        Unless::Faster(other, gain, more) => format!(
            "{} a lookup are worth {} of memory (then {})",
            micros(*gain),
            size(*more as u64),
            other.name
        ),
        Unless::MoreKeys(other, keys) => {
            format!("there are over {} keys (then {})", rounded(*keys), other.name)
        }
    }
}

/// A number of keys with two significant digits.
fn rounded(keys: f64) -> String {
    let unit = 10f64.powf(keys.log10().floor() - 1.0).max(1.0);
    count(((keys / unit).round() * unit) as u64)
}

/// The fields of the verdict as JSON: `take` is a policy, and each `unless` names another one.
pub fn json(s: &Situation, of: &Recommendation) -> String {
    let filter = |unless: &Unless| match unless {
        Unless::RocksDb(other)
        | Unless::ShortMemory(other, _)
        | Unless::Faster(other, ..)
        | Unless::MoreKeys(other, _) => other.name.clone(),
    };
    let unless = |unless: &Unless| {
        object! { reason = json!(reason(unless)), take = json!(filter(unless)) }
    };
    let Recommendation { take, is_kept, saved_micros, .. } = of;
    object! {
        take = json!(take.name), keeps_what_there_is = json!(is_kept),
        saved_micros_per_lookup = json!(saved_micros), filter_bytes = json!(take.bytes as u64),
        blocks_per_lookup = json!(s.reads(take).value), share_absent = json!(s.share_absent),
        unless = json_list(of.unless.iter().map(unless)),
        sentence = json!(format!("{}.", sentence(s, of)))
    }
}

/// Says which of several times is the shortest. If the rounds of a run vary more than the times
/// differ, it says that instead.
pub fn ranking(what: &str, names: &[&str], times: &[Estimate], most: usize) -> Option<String> {
    let nanos = |i: usize| count(times[i].value.round() as u64);
    Some(match super::rank(times)? {
        Ranking::Fastest(i) => format!(
            "{what} lookups take the least time with {}, {} ns (95 %: {} to {}); every other one takes \
             more.",
            names[i],
            nanos(i),
            count(times[i].low.round() as u64),
            count(times[i].high.round() as u64)
        ),
        Ranking::Noise(tied) => {
            let named = tied.iter().take(most).map(|&i| format!("{} ({} ns)", names[i], nanos(i)));
            let named = named.collect::<Vec<_>>().join(", ");
            let more = match tied.len().saturating_sub(most) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "{what} lookups: the rounds vary more than these policies differ, so that none is the \
                 fastest: {named}{more}."
            )
        }
    })
}

/// Formats microseconds, with more decimals the fewer they are.
pub fn micros(micros: f64) -> String {
    match micros {
        ..0.095 => format!("{micros:.3} µs"),
        ..9.95 => format!("{micros:.1} µs"),
        _ => format!("{micros:.0} µs"),
    }
}

pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.1 => format!("{:.0} ms", s * 1000.0),
        s if s < 10.0 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

/// What one filter costs or saves in time compared with another, for `others` of a verdict.
pub fn against(s: &Situation, of: &Filter, chosen: &Filter) -> String {
    let is_as_large = super::is_same_size(of.bytes, chosen.bytes);
    let memory = match of.bytes - chosen.bytes {
        _ if is_as_large => "takes as much memory".to_string(),
        more if more > 0.0 => format!("takes {} more", size(more as u64)),
        less => format!("takes {} less", size(-less as u64)),
    };
    let (reads, chosen_reads) = (s.reads(of), s.reads(chosen));
    if reads.is_tied_with(&chosen_reads) {
        let name = if is_as_large { "is a tie: it " } else { "" };
        return format!(
            "{} {name}{memory}, and its reads cannot be told from those of {} (95 % intervals overlap).",
            of.name, chosen.name
        );
    }
    let more = reads.value - chosen_reads.value;
    let (word, time) = if more > 0.0 { ("more", "more") } else { ("fewer", "less") };
    format!(
        "{} {memory} and reads {:.3} blocks {word} than {}: {} {time}.",
        of.name,
        more.abs(),
        chosen.name,
        micros(more.abs() * s.read_micros)
    )
}
