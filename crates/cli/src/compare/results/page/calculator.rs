//! The calculator of a page: a script that computes monthly costs from the figures. From half to
//! twice the measured number of keys, it uses the measured figures. For other numbers of keys, it
//! uses computed figures of large tables, because the measured tables may be small, and chance
//! changes the rates of small tables. Its table shows the measured and the computed blocks a lookup
//! next to each other.

use maypole::filter::FilterSpec;
use serde_json::json;

use super::super::{PolicyRow, Results};
use crate::compare::lab;
use crate::show::text::counted;

/// If a policy has the same filter for all tables, the calculator builds one such filter of this
/// many keys. It takes the bits per key and the false-positive rate of this filter for those of
/// large tables, because a larger filter has nearly the same rate.
const LARGE_KEYS: u64 = 200_000;

/// The form, whose values the reader may change. It starts with the measured number of keys, with
/// the share of absent keys in the file of queries if there was one, and with round numbers for the
/// rest.
pub fn form(results: &Results) -> String {
    let keys = results.about.keys;
    let measured = counted(keys, "key");
    let percent = results.about.share_absent.map_or(60.0, |share| (share * 1000.0).round() / 10.0);
    let start = format!(
        "<p class=\"soft\">Your numbers, with the blocks read and the bits per key that were measured on \
         {measured}. For less than half or more than twice as many keys both are computed, of filters \
         in large tables; the measured blocks stand next to them. No data block is taken to be cached.\
         </p>\n<form class=\"calculator\" id=\"calculator\">\n<label>keys <input name=\"keys\" \
         type=\"number\" min=\"1\" step=\"any\" value=\"{keys}\"></label>\n"
    );
    start + &REST.replace("SHARE", &percent.to_string())
}

const REST: &str = r#"<label>lookups a second <input name="rate" type="number" min="0" step="any" value="5000"></label>
<label>absent lookups, % <input name="absent" type="number" min="0" max="100" step="any" value="SHARE"></label>
<label>cost of a million reads, $ <input name="read" type="number" min="0" step="any" value="0.02"></label>
<label>memory, $ per GiB and month <input name="memory" type="number" min="0" step="any" value="3"></label>
</form>
<output id="cost" for="calculator"></output>
<p class="soft">Monthly cost = resident bytes × price of memory + lookups a month × blocks read a lookup × cost of a read.<br>
Resident bytes = keys × bits per key / 8. Blocks read a lookup = share absent × blocks of an absent one +
share present × blocks of a present one, which are always the measured ones. A month has 30 days.</p>
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
    const [best, next] = costs;
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
    const words = document.createElement("p"), less = next ? next.all - best.all : 0;
    const by = isMeasured ? "By measured rates " : "By computed rates ";
    words.textContent = by + (next
      ? `${best.name} is cheapest: ${money(best.all)} a month, ${money(less)} ` +
        `(${(100 * less / (next.all || 1)).toFixed(1)} %) less than ${next.name}.`
      : `${best.name} costs ${money(best.all)} a month.`);
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
    let policies = json!(policies).to_string().replace('<', "\\u003c");
    let keys = results.about.keys.max(1);
    format!("const POLICIES = {policies}, MEASURED_KEYS = {keys};\n{SCRIPT}")
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
            form.contains(&format!("max=\"100\" step=\"any\" value=\"{percent}\""))
        };
        assert!(says(of(Some(0.7023)), "70.2"));
        assert!(says(of(None), "60"));
    }
}
