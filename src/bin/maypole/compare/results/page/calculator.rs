//! The calculator of a page: plain script over the measured figures. Nothing of it is measured or
//! assumed but what the reader fills in.

use serde_json::json;

use super::super::Results;

/// Filled in with round numbers, to be changed.
pub const FORM: &str = r#"<p class="soft">Your numbers, with the blocks read and the bits per key that were measured above.
No data block is taken to be cached.</p>
<form class="calculator" id="calculator">
<label>keys <input name="keys" type="number" min="0" step="any" value="1000000000"></label>
<label>lookups a second <input name="rate" type="number" min="0" step="any" value="5000"></label>
<label>absent lookups, % <input name="absent" type="number" min="0" max="100" step="any" value="60"></label>
<label>cost of a million reads, $ <input name="read" type="number" min="0" step="any" value="0.02"></label>
<label>memory, $ per GiB and month <input name="memory" type="number" min="0" step="any" value="3"></label>
</form>
<output id="cost" for="calculator"></output>
<p class="soft">Monthly cost = resident bytes × price of memory + lookups a month × blocks read a lookup × cost of a read.<br>
Resident bytes = keys × bits per key / 8. Blocks read a lookup = share absent × blocks of an absent one +
share present × blocks of a present one. A month has 30 days.</p>
"#;

const SCRIPT: &str = r#"
(() => {
  const form = document.getElementById("calculator"), output = document.getElementById("cost");
  const money = (x) => {
    const digits = x < 1000 ? 2 : 0;
    return "$ " + x.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const cell = (row, text, name) => {
    const cell = document.createElement(name || "td");
    cell.textContent = text;
    row.append(cell);
  };
  const compute = () => {
    const say = (name) => Math.max(0, Number(form.elements[name].value) || 0);
    const share = Math.min(1, say("absent") / 100), lookups = say("rate") * 86400 * 30;
    const costs = POLICIES.map((policy) => {
      const memory = say("keys") * policy.bits / 8 / 2 ** 30 * say("memory");
      const blocks = share * policy.absent + (1 - share) * policy.present;
      const reads = lookups * blocks * say("read") / 1e6;
      return { name: policy.name, memory, reads, blocks, all: memory + reads };
    }).sort((a, b) => a.all - b.all);
    const [best, next] = costs;
    const table = document.createElement("table"), head = table.createTHead().insertRow();
    for (const name of ["policy", "blocks a lookup", "memory", "reads", "a month"]) cell(head, name, "th");
    const body = table.createTBody();
    for (const cost of costs.slice(0, 12)) {
      const row = body.insertRow();
      if (cost === best) row.className = "best";
      cell(row, cost.name);
      cell(row, cost.blocks.toFixed(4));
      for (const x of [cost.memory, cost.reads, cost.all]) cell(row, money(x));
    }
    const words = document.createElement("p"), less = next ? next.all - best.all : 0;
    words.textContent = next
      ? `${best.name} is cheapest: ${money(best.all)} a month, ${money(less)} ` +
        `(${(100 * less / (next.all || 1)).toFixed(1)} %) less than ${next.name}.`
      : `${best.name} costs ${money(best.all)} a month.`;
    const scroll = document.createElement("div");
    scroll.className = "scroll";
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
            json!({
                "name": row.policy,
                "bits": row.bits_per_key,
                "absent": row.blocks_per_absent_get,
                "present": row.blocks_per_present_get,
            })
        })
        .collect();
    // Inside a script only `</script` and `<!--` could end it: no `<` is left.
    let policies = json!(policies).to_string().replace('<', "\\u003c");
    format!("const POLICIES = {policies};\n{SCRIPT}")
}
