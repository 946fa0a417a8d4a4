//! The checks of a launch: its shards must not interfere, and an inner task can pass on only what it holds.
//!
//! Atomic coherence works only within a shard. Between shards it would need a lock held across processors, and results
//! would depend on the order of its holders. Shards use barriers or a collective instead.

use super::Planner;
use super::claims::{Claim, Claimants, conflict};
use crate::Error;
use crate::effects::Effects;
use crate::message::HeldRegion;
use crate::object::Object;
use maniple_regions::{Interference, Use};

impl Planner {
    /// Refuses exclusive requirements of different shards that interfere, and anything that an inner task does not
    /// hold.
    pub fn check(&self, effects: &Effects, held: &[Vec<HeldRegion>]) -> Result<(), Error> {
        let mut claims: Vec<Claim> = Vec::new();
        for (shard, list) in (0u32..).zip(held) {
            for h in list {
                effects.objects.in_tree(h.region, self.part_of, || self.to_hold(shard))?;
                for &field in &h.fields {
                    effects.objects.field(h.region.tree, field)?;
                    let at = Use { region: h.region, field, privilege: h.privilege, coherence: h.coherence };
                    claims.push(Claim { user: shard, at });
                }
            }
        }
        match conflict(&mut claims, Claimants::Shards) {
            None => self.check_covered(effects, held),
            Some((a, b, verdict)) => Err(Error::Interference {
                place: self.place(),
                between: format!(
                    "shard {} ({}) and shard {} ({})",
                    a.user,
                    self.named(effects, &a.at),
                    b.user,
                    self.named(effects, &b.at)
                ),
                hint: match verdict {
                    Interference::Simultaneous if a.user == b.user => {
                        "name one region in place of both of the shard's own, or two that are disjoint".into()
                    }
                    Interference::Simultaneous => "name the very same region in both shards".into(),
                    _ if a.user == b.user => "name a cell once, with all that the shard does to it".into(),
                    // Instances of different shards are never folded together, not even for equal reductions.
                    Interference::None => "fold into disjoint regions, or use a collective".into(),
                    _ => {
                        "use disjoint regions, or simultaneous coherence and barriers; send ghost cells over edges, as \
                          `maniple::halo` does"
                            .into()
                    }
                },
            }),
        }
    }

    /// A use, with the names of its tree and field.
    fn named(&self, effects: &Effects, at: &Use) -> String {
        let region = at.region;
        let tree = effects.objects.with(region.tree.0, |object| match object.and_then(Object::tree) {
            Some(tree) => tree.name.clone(),
            None => region.tree.to_string(),
        });
        let field =
            effects.objects.field(region.tree, at.field).map_or_else(|_| at.field.to_string(), |f| f.name.into());
        format!("{} {} of field `{field}` of `{tree}` {}", at.coherence, at.privilege, region.rect)
    }

    fn to_hold(&self, shard: u32) -> String {
        format!("what shard {shard} is to hold, launched by {}", self.place())
    }

    fn check_covered(&self, effects: &Effects, held: &[Vec<HeldRegion>]) -> Result<(), Error> {
        let Some(own) = &self.held else { return Ok(()) };
        for (shard, h) in (0u32..).zip(held).flat_map(|(s, list)| list.iter().map(move |h| (s, h))) {
            let covered = own.iter().any(|o| {
                o.region.contains(&h.region)
                    && o.allows(h.privilege, h.coherence)
                    && h.fields.iter().all(|f| o.fields.contains(f))
            });
            if !covered {
                let show = |h: &HeldRegion| {
                    let region = effects.objects.shown(h.region);
                    format!("{} under {} coherence on {region}", h.privilege, h.coherence)
                };
                let own: Vec<_> = own.iter().map(show).collect();
                return Err(Error::misuse(self.to_hold(shard), format!("a part of [{}]", own.join(", ")), show(h)));
            }
        }
        Ok(())
    }
}
