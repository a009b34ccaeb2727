//! The calculator of a page: a script that computes monthly costs from the figures. Which policy to
//! take is decided by [`recommend`](crate::recommend): the page has a table of its choices for every
//! share of absent keys and many numbers of keys, and the script only looks them up.
//!
//! From half to
//! twice the measured number of keys, it uses the measured figures. For other numbers of keys, it
//! uses computed figures of large tables, because the measured tables may be small, and chance
//! changes the rates of small tables. Its table shows the measured and the computed blocks a lookup
//! next to each other.

use maypole::filter::FilterSpec;
use serde_json::json;

use super::super::{PolicyRow, Results, verdict};
use crate::compare::lab;
use crate::recommend::{Estimate, LEAST_DOLLARS, Prices, Situation, choice};
use crate::show::html::escape;
use crate::show::text::counted;

/// If a policy has the same filter for all tables, the calculator builds one such filter of this
/// many keys. It takes the bits per key and the false-positive rate of this filter for those of
/// large tables, because a larger filter has nearly the same rate.
const LARGE_KEYS: u64 = 200_000;
/// The numbers of keys in the table of choices: this many for each factor of ten, up to the last
/// factor.
const STEPS: i32 = 5;
const FACTORS: i32 = 12;
/// The numbers that the form starts with.
const START: Prices = Prices { lookups_a_second: 5000.0, million_reads: 0.02, gib_and_month: 3.0 };

/// The form, whose values the reader may change. It starts with the measured number of keys, with
/// the share of absent keys in the file of queries if there was one, and with round numbers for the
/// rest.
pub fn form(results: &Results) -> String {
    let keys = results.about.keys;
    let measured = counted(keys, "key");
    let percent = results.about.share_absent.map_or(60.0, |share| (share * 100.0).round());
    let start = format!(
        "<p class=\"soft\">Your numbers, with the blocks read and the bits per key that were measured on \
         {measured}. For less than half or more than twice as many keys both are computed, of filters \
         in large tables; the measured blocks stand next to them. No data block is taken to be cached.\
         </p>\n<form class=\"calculator\" id=\"calculator\">\n<label>keys <input name=\"keys\" \
         type=\"number\" min=\"1\" step=\"any\" value=\"{keys}\"></label>\n"
    );
    let Prices { lookups_a_second, million_reads, gib_and_month } = START;
    let rest = REST.replace("LEAST", &LEAST_DOLLARS.to_string());
    let mut rest = rest.replace("SHARE", &percent.to_string());
    for (name, value) in
        [("RATE", lookups_a_second), ("READ", million_reads), ("MEMORY", gib_and_month)]
    {
        rest = rest.replace(name, &value.to_string());
    }
    let situation = Situation {
        share_absent: Some(percent / 100.0),
        prices: Some(START),
        ..verdict::situation(results)
    };
    start + &rest.replace("CHOICE", &escape(&choice(&situation).name))
}

const REST: &str = r#"<label>lookups a second <input name="rate" type="number" min="0" step="any" value="RATE"></label>
<label>absent lookups, % <input name="absent" type="number" min="0" max="100" step="1" value="SHARE"></label>
<label>cost of a million reads, $ <input name="read" type="number" min="0" step="any" value="READ"></label>
<label>memory, $ per GiB and month <input name="memory" type="number" min="0" step="any" value="MEMORY"></label>
</form>
<output id="cost" for="calculator"><p>Take CHOICE.</p></output>
<p class="soft">Monthly cost = resident bytes × price of memory + lookups a month × blocks read a lookup × cost of a read.<br>
Resident bytes = keys × bits per key / 8. Blocks read a lookup = share absent × blocks of an absent one +
share present × blocks of a present one, which are always the measured ones. A month has 30 days.<br>
What saves less than $ LEAST a month is no reason for another policy than the one that the verdict takes for these
keys.</p>
"#;

const SCRIPT: &str = r#"
(() => {
  const form = document.getElementById("calculator"), output = document.getElementById("cost");
  const money = (x) => {
    const digits = x < 1 ? 4 : x < 1000 ? 2 : 0;
    return "$ " + x.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const cell = (row, text, name, title) => {
    const cell = document.createElement(name);
    cell.textContent = text;
    if (title) cell.dataset.name = title;
    row.append(cell);
  };
  const compute = () => {
    const wrong = [...form.elements].find((field) => !field.checkValidity());
    output.className = wrong ? "refused" : "";
    if (wrong) {
      const { min, max } = wrong, upTo = max ? ` to ${max}` : "";
      output.textContent = `${wrong.parentElement.textContent.trim()}: a number from ${min}${upTo}`;
      return;
    }
    const say = (name) => Math.max(0, Number(form.elements[name].value) || 0);
    const share = Math.min(1, say("absent") / 100), lookups = say("rate") * 86400 * 30;
    const times = say("keys") / MEASURED_KEYS, isMeasured = times >= 0.5 && times <= 2;
    const costs = POLICIES.map((policy) => {
      const memory = say("keys") * (isMeasured ? policy.bits : policy.large_bits) / 8 / 2 ** 30 * say("memory");
      const mix = (absent) => share * absent + (1 - share) * policy.present;
      const measured = mix(policy.absent), computed = mix(policy.large_absent);
      const reads = lookups * (isMeasured ? measured : computed) * say("read") / 1e6;
      return { name: policy.name, memory, reads, measured, computed, all: memory + reads };
    }).sort((a, b) => a.all - b.all);
    const [best] = costs;
    const table = document.createElement("table"), head = table.createTHead().insertRow();
    const names = ["policy", `blocks a lookup, measured on ${MEASURED_KEYS.toLocaleString("en")} keys`,
      "computed for large tables", "memory", "reads", "a month"];
    table.className = "glance";
    for (const name of names) cell(head, name, "th");
    const body = table.createTBody();
    for (const cost of costs.slice(0, 12)) {
      const row = body.insertRow();
      if (cost === best) row.className = "best";
      const cells = [cost.name, cost.measured.toFixed(4), cost.computed.toFixed(4),
        money(cost.memory), money(cost.reads), money(cost.all)];
      cells.forEach((text, i) => cell(row, text, "td", names[i]));
    }
    const words = document.createElement("p");
    const step = Math.min(STEPS, Math.max(0, Math.round(Math.log10(say("keys")) * STEPS_A_FACTOR)));
    const of = CHOICES[Math.round(share * 100)].charCodeAt(isMeasured ? 0 : 1 + step) - FIRST;
    const usual = POLICIES[of] ? costs.find((cost) => cost.name === POLICIES[of].name) : best;
    const less = usual.all - best.all, take = less < LEAST_DOLLARS ? usual : best;
    words.textContent = `Take ${take.name}: ${money(take.all)} a month by ${isMeasured ? "measured" : "computed"} rates; ` +
      (take === usual ? `no other one saves ${money(LEAST_DOLLARS)} of it.` : `${money(less)} less than ${usual.name}.`);
    const scroll = document.createElement("div");
    scroll.className = "wide";
    scroll.append(table);
    output.replaceChildren(words, scroll);
  };
  form.addEventListener("input", compute);
  form.addEventListener("submit", (event) => event.preventDefault());
  compute();
})();
"#;

pub fn script(results: &Results) -> String {
    let policies: Vec<_> = results
        .policies
        .iter()
        .map(|row| {
            let large = of_large_tables(row, results);
            json!({
                "name": row.policy,
                "bits": row.bits_per_key,
                "absent": row.blocks_per_absent_get,
                "present": row.blocks_per_present_get,
                "large_bits": large.0,
                "large_absent": large.1,
            })
        })
        .collect();
    // `</script` would end the script, and `<!--` could hide its end, so every `<` is replaced.
    let text = |value: serde_json::Value| value.to_string().replace('<', "\\u003c");
    let (policies, choices) = (text(json!(policies)), text(json!(choices(results))));
    let keys = results.about.keys.max(1);
    format!(
        "const POLICIES = {policies}, MEASURED_KEYS = {keys};\nconst CHOICES = {choices}, FIRST = {}, \
         STEPS = {}, STEPS_A_FACTOR = {STEPS}, LEAST_DOLLARS = {LEAST_DOLLARS};\n{SCRIPT}",
        FIRST as u32,
        STEPS * FACTORS
    )
}

/// The character that stands for the first policy in the table of choices; the one after it stands
/// for the second, and so on. The one before it stands for no filter.
const FIRST: char = '1';

/// The choices of the rule. For each share of absent keys in percent there is a text: its first
/// character is the choice for the measured tree, and the others are the choices for large tables
/// with 1 key, 10^(1/5) keys and so on.
fn choices(results: &Results) -> Vec<String> {
    let mut measured = verdict::situation(results);
    let mut large = measured.clone();
    for filter in &mut large.filters {
        let row = results.policies.iter().find(|row| row.policy == filter.name);
        let (bits, absent) = row.map_or((0.0, 0.0), |row| of_large_tables(row, results));
        (filter.bytes, filter.absent) = (bits / 8.0, Estimate::exact(absent));
    }
    large.keys = 1.0;
    let trees: Vec<Situation> = (0..=STEPS * FACTORS)
        .map(|step| large.grown(10f64.powf(f64::from(step) / f64::from(STEPS))))
        .collect();
    let sign = |s: &Situation| {
        let name = &choice(s).name;
        let position = results.policies.iter().position(|row| row.policy == *name);
        let sign = position.map_or(FIRST as u32 - 1, |position| FIRST as u32 + position as u32);
        char::from_u32(sign).unwrap_or('?')
    };
    let of_share = |percent: u32| {
        let share_absent = Some(f64::from(percent) / 100.0);
        measured.share_absent = share_absent;
        let large = trees.iter().map(|s| sign(&Situation { share_absent, ..s.clone() }));
        std::iter::once(sign(&measured)).chain(large).collect()
    };
    (0..=100).map(of_share).collect()
}

/// Bits per key, and blocks per absent lookup, if all tables were large and their filters were
/// queried as often as in this run. If the policy has the same filter for all tables, both figures
/// are computed from a large filter. For another policy, the blocks are computed from the predicted
/// rate of each level, but the bits are those of this run.
fn of_large_tables(row: &PolicyRow, results: &Results) -> (f64, f64) {
    let gets = row.absent_gets.max(1) as f64;
    let uniform = row.policy.parse::<FilterSpec>().ok();
    if let Some(block) = uniform.and_then(|spec| lab::build(spec, LARGE_KEYS, 1)) {
        let asked = row.filters_asked as f64 / gets;
        return (block.bits_per_key(), asked * block.predicted_fpr());
    }
    // Levels without filters are read as often as in this run.
    let in_vain = (row.full_positive - row.full_true_positive) as f64 / gets;
    let unfiltered = (row.blocks_per_absent_get - in_vain).max(0.0);
    let levels = results.levels.iter().filter(|level| level.policy == row.policy);
    let predicted =
        levels.filter_map(|level| Some(level.predicted_fpr? * level.filters_asked as f64 / gets));
    (row.bits_per_key, unfiltered + predicted.sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::super::super::About;
    use super::*;

    /// The calculator once started with 60 % of absent keys, although the file of queries had
    /// 70.2 %. Now it starts with the share in the file.
    #[test]
    fn the_share_of_absent_keys_is_that_of_the_queries() {
        let of = |share_absent| {
            let about = About { share_absent, ..About::default() };
            form(&Results::computed(about, 100_000, &[("bloom(10)", 125_000, 0.01)]))
        };
        let says = |form: String, percent: &str| {
            form.contains(&format!("max=\"100\" step=\"1\" value=\"{percent}\""))
        };
        assert!(says(of(Some(0.7023)), "70"));
        assert!(says(of(None), "60"));
    }

    /// On one page, the verdict named burr(7), and the calculator bloom(10). Now both ask the same
    /// rule, here for lookups of absent keys alone.
    #[test]
    fn the_calculator_takes_what_the_verdict_takes() {
        for (keys, policy) in [(300_000, "bloom(10)"), (300_000_000, "burr(7)")] {
            let about = || About { keys, read_cost: Default::default(), ..About::default() };
            let filters = [("bloom(10)", keys * 10 / 8, 0.0093), ("burr(7)", keys * 7 / 8, 0.0086)];
            let mut results = Results::computed(about(), keys / 3, &filters);
            let said = verdict::words(&results).sentence;
            assert!(said.starts_with(&format!("Take {policy}:")), "{said}");
            let choices = choices(&results);
            let index = |sign: Option<char>| sign.unwrap() as usize - FIRST as usize;
            let measured = index(choices[100].chars().next());
            assert_eq!(results.policies[measured].policy, policy);
            // Large tables with as many keys get the same policy, because their filters have about
            // the same rates.
            let step = ((keys as f64).log10() * f64::from(STEPS)).round() as usize;
            let large = index(choices[100].chars().nth(1 + step));
            assert_eq!(results.policies[large].policy, policy, "{}", choices[100]);
            assert_eq!((choices.len(), choices[7].len()), (101, 62));
            results.about.share_absent = Some(1.0);
            assert!(form(&results).contains(&format!("<p>Take {policy}.</p>")));
        }
    }
}
