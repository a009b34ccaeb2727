//! [`Planner::plan_overspent`]: which table is rewritten because the filters of the tree exceed the
//! budget of the filter policy. A table keeps its filter until it is rewritten, while the filter's
//! share of the budget shrinks as the tree grows.

use super::plan::{Gain, Plan, Planner};
use crate::filter_policy::FilterPolicy;
use crate::version::Version;

impl Planner<'_> {
    /// Plans the rewrite, within its level, of the table whose filter exceeds its share by the most
    /// bits. Returns `None` if all filters together exceed the budget by at most a twentieth, if no
    /// filter that a rewrite could shrink exceeds its own share by more than a twentieth, or if the
    /// rewrite cannot start now. Returns `None` also for a policy without a budget. `version` is
    /// the tree that is planned for.
    pub fn plan_overspent(&self, policy: &FilterPolicy, version: &Version) -> Option<Plan> {
        let allowance = policy.allowance()?;
        let infos = || version.files().filter_map(|(l, f)| Some((l, f, f.table.filter_info()?)));
        let held_bits: f64 = infos().map(|(_, _, info)| info.bytes as f64 * 8.0).sum();
        let entries = self.levels.iter().flatten().map(|meta| meta.entries).sum();
        if held_bits <= allowance.most_bits(entries) {
            return None;
        }
        // Three kinds of tables are left out: tables of level 0, because they are compacted soon
        // anyway; tables with a filter of another family than the policy's, because the build of
        // the policy's filter may have failed, and might fail again; and tables with fewer than
        // 10,000 keys, because the sizes of their filters are not exact enough for the comparison.
        let candidates: Vec<_> = infos()
            .filter(|(level, file, info)| {
                let may_shrink = info.family == Some(allowance.family) && info.keys >= 10_000;
                let is_free = !self.is_held(&file.meta);
                *level > 0 && may_shrink && is_free && !self.is_vain(&file.meta, Gain::FilterBits)
            })
            .collect();
        // The shares are computed only if necessary, because every change of the tree calls this
        // function.
        if candidates.is_empty() {
            return None;
        }
        let share_of = allowance.shares(version);
        let (_, level, file) = candidates
            .into_iter()
            .map(|(level, file, info)| (level, file, info, share_of(level, file)))
            .filter(|(.., info, share)| info.bits_per_key() > allowance.most_bits_per_key(*share))
            .map(|(level, file, info, share)| {
                let excess = (info.bits_per_key() - share) * info.keys as f64;
                (excess, level, file)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let plan = self.plan_files(&[&file.meta], level, level)?;
        // A cut at a damaged table would leave more tables than before.
        plan.fences.is_empty().then_some(Plan { gain: Gain::FilterBits, ..plan })
    }
}
