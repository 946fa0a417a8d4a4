//! The instances that the gangs of the top-level task have used, and which of them go.
//!
//! An instance is *spare* when every point of it has the same or a newer version in another instance. Spare instances of a
//! processor are kept up to a bound; the one that was used last goes last. An instance that is used again and again stays
//! whatever the bound, as long as it comes in time: twice the number of launches between its last two uses. An instance
//! that has gone is remembered for a while, so that its next use counts as one that comes again.
//!
//! Every copy of the top-level task decides the same, as the decision depends on nothing but the launches and the mapper's
//! answers. What the gangs of an inner task have written, and where, each copy learns at another time. So instances of that
//! data stay until a later launch uses the data: the program has then awaited the inner task, and all copies know.

use super::Versions;
use crate::ids::{ColumnKey, ProcessorId};
use crate::maps::HashMap;
use maniple_regions::{FieldId, TreeId};

/// The bytes that an instance takes besides its values.
const OVERHEAD: usize = 512;
/// Without a bound by the program, a processor keeps half as many bytes of spare instances as of others, and at least this.
const LEAST: usize = 1 << 16;

/// An instance: the column whose rectangle it covers, and its processor.
pub(crate) type At = (ColumnKey, ProcessorId);

type Field = (TreeId, FieldId);

/// An instance that launches have used.
struct Known {
    at: At,
    /// The number of the launch that used it last, and the launches from the use before to that one; `None` after one use.
    used: u64,
    every: Option<u64>,
    bytes: usize,
    /// Whether the mapper lets it stay when it is spare.
    may_stay: bool,
    /// Whether it has not gone.
    there: bool,
}

/// The instances on one processor.
#[derive(Default, Clone, Copy)]
struct Memory {
    bytes: usize,
    /// With more bytes than this some may have to go.
    limit: usize,
}

/// The instances that a launcher's gangs have used.
#[derive(Default)]
pub(crate) struct Kept {
    numbers: HashMap<At, u32>,
    all: Vec<Known>,
    memory: HashMap<ProcessorId, Memory>,
    /// Instances that go as soon as they are spare.
    hurried: HashMap<Field, Vec<u32>>,
    /// The fields that the present launch uses, and those that the launch before used. No other instances become spare.
    touched: [Vec<Field>; 2],
    /// What inner tasks that were launched write. No later launch has used it.
    in_doubt: Vec<ColumnKey>,
    launches: u64,
    /// How often instances have gone or were forgotten. Numbers of instances hold until then.
    changes: u64,
    /// Instances that go with the next messages.
    due: Vec<At>,
    /// Whether a processor has more than its limit.
    over: bool,
}

/// The instances that a launch uses, by number, as long as nothing has gone.
pub(crate) struct Used {
    numbers: Box<[u32]>,
    changes: u64,
}

impl Kept {
    /// Whether an instance is there.
    pub fn has(&self, at: &At) -> bool {
        self.numbers.get(at).is_some_and(|&number| self.all[number as usize].there)
    }

    /// Begins a launch.
    pub fn begin(&mut self) {
        self.launches += 1;
        self.touched.swap(0, 1);
        self.touched[0].clear();
    }

    /// The present launch uses a column.
    fn touch(&mut self, key: &ColumnKey) {
        let field = (key.tree, key.field);
        if self.touched[0].last() != Some(&field) {
            self.touched[0].push(field);
        }
        if !self.in_doubt.is_empty() {
            self.no_doubt_about(key);
        }
    }

    #[cold]
    fn no_doubt_about(&mut self, key: &ColumnKey) {
        let left = |doubt: ColumnKey| {
            let parts = if doubt.overlaps(key) { doubt.rect.subtract(&key.rect) } else { vec![doubt.rect] };
            parts.into_iter().map(move |rect| ColumnKey { rect, ..doubt })
        };
        self.in_doubt = std::mem::take(&mut self.in_doubt).into_iter().flat_map(left).collect();
    }

    /// Inner tasks that were just launched write these columns.
    pub fn doubt(&mut self, columns: impl Iterator<Item = ColumnKey>) {
        self.in_doubt.extend(columns);
    }

    fn is_in_doubt(&self, key: &ColumnKey) -> bool {
        self.in_doubt.iter().any(|doubt| doubt.overlaps(key))
    }

    /// A launch uses these instances, each with its size and whether it may stay when it is spare. The last two matter for
    /// those that are not there yet.
    pub fn note(&mut self, uses: impl Iterator<Item = (At, usize, bool)>) -> Used {
        let mut numbers = Vec::new();
        for (at, bytes, may_stay) in uses {
            let number = *self.numbers.entry(at).or_insert_with(|| {
                let (used, every) = (self.launches, None);
                self.all.push(Known { at, used, every, bytes: 0, may_stay, there: false });
                self.all.len() as u32 - 1
            });
            let known = &mut self.all[number as usize];
            if !known.there {
                (known.there, known.bytes, known.may_stay) = (true, bytes.saturating_add(OVERHEAD), may_stay);
                let memory = self.memory.entry(at.1).or_default();
                memory.bytes = memory.bytes.saturating_add(known.bytes);
                self.over |= memory.bytes > memory.limit;
                if !may_stay {
                    self.hurried.entry((at.0.tree, at.0.field)).or_default().push(number);
                }
            }
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
            known.use_now(self.launches);
            self.touch(&at.0);
        }
        Used { numbers: numbers.into(), changes: self.changes }
    }

    /// A launch comes again and uses the same instances. False if some may be gone; then [`Self::note`] it.
    pub fn again(&mut self, used: &Used) -> bool {
        let same = used.changes == self.changes;
        if same {
            used.numbers.iter().for_each(|&number| self.all[number as usize].use_now(self.launches));
            if !self.hurried.is_empty() || !self.in_doubt.is_empty() {
                for &number in &used.numbers {
                    let (key, _) = self.all[number as usize].at;
                    self.touch(&key);
                }
            }
        }
        same
    }

    /// Gives up spare instances where there are too many bytes. `bound` is the program's bound for each processor. To be
    /// called when the versions are as after the launch.
    pub fn give_up(&mut self, versions: &mut Versions, bound: Option<usize>) {
        if !self.hurried.is_empty() {
            let mut fields = self.touched.concat();
            fields.sort_unstable();
            fields.dedup();
            for field in fields {
                let Some(mut hurried) = self.hurried.remove(&field) else { continue };
                hurried.retain(|&number| !self.give_up_one(number, versions));
                if !hurried.is_empty() {
                    self.hurried.insert(field, hurried);
                }
            }
        }
        if !std::mem::take(&mut self.over) {
            return;
        }
        // For each processor the bytes that have to stay, and the spare instances by their last use.
        let mut needed: HashMap<ProcessorId, usize> = HashMap::default();
        let mut spare: Vec<(u64, u32)> = Vec::new();
        for (number, known) in (0u32..).zip(&self.all).filter(|(_, known)| known.there) {
            match known.comes_again(self.launches) || self.needs(&known.at, versions) {
                true => *needed.entry(known.at.1).or_default() += known.bytes,
                false => spare.push((known.used, number)),
            }
        }
        spare.sort_unstable();
        // A little more goes than has to, so that not each launch looks at all instances.
        let mut aims: HashMap<ProcessorId, usize> = HashMap::default();
        for (processor, memory) in &mut self.memory {
            let needed = needed.get(processor).copied().unwrap_or(0);
            let bound = bound.unwrap_or((needed / 2).max(LEAST));
            memory.limit = needed.saturating_add(bound);
            if memory.bytes > memory.limit {
                aims.insert(*processor, memory.limit - bound / 2);
            }
        }
        for (_, number) in spare {
            let (_, processor) = self.all[number as usize].at;
            if aims.get(&processor).is_some_and(|&aim| self.memory[&processor].bytes > aim) {
                self.give_up_one(number, versions);
            }
        }
        self.forget();
    }

    /// Whether an instance has to stay.
    fn needs(&self, (key, processor): &At, versions: &Versions) -> bool {
        self.is_in_doubt(key) || versions.needs(key, *processor)
    }

    /// Gives an instance up if it is spare and no longer used. True if it is not there any more.
    fn give_up_one(&mut self, number: u32, versions: &mut Versions) -> bool {
        let known = &self.all[number as usize];
        let (key, processor) = known.at;
        if !known.there {
            return true;
        }
        if known.used == self.launches || self.needs(&known.at, versions) {
            return false;
        }
        versions.forget(&key, processor);
        let known = &mut self.all[number as usize];
        known.there = false;
        if let Some(memory) = self.memory.get_mut(&processor) {
            memory.bytes -= known.bytes;
        }
        self.changes += 1;
        self.due.push((key, processor));
        true
    }

    /// Forgets those that have gone, but for as many as are there: the latest ones.
    fn forget(&mut self) {
        let there = self.all.iter().filter(|known| known.there).count();
        if self.all.len() <= 4 * there + 64 {
            return;
        }
        let mut gone: Vec<u64> = self.all.iter().filter(|known| !known.there).map(|known| known.used).collect();
        gone.sort_unstable();
        let oldest = gone[gone.len() - there.min(gone.len())..].first().copied().unwrap_or(u64::MAX);
        self.retain(|known| known.there || known.used >= oldest);
    }

    /// Forgets a tree that is destroyed. Its instances go without being told.
    pub fn forget_tree(&mut self, tree: TreeId) {
        for known in self.all.iter().filter(|known| known.at.0.tree == tree && known.there) {
            if let Some(memory) = self.memory.get_mut(&known.at.1) {
                memory.bytes -= known.bytes;
            }
        }
        self.retain(|known| known.at.0.tree != tree);
        self.in_doubt.retain(|doubt| doubt.tree != tree);
    }

    fn retain(&mut self, stays: impl Fn(&Known) -> bool) {
        let hurried: Vec<At> =
            self.hurried.drain().flat_map(|(_, all)| all).map(|number| self.all[number as usize].at).collect();
        self.all.retain(stays);
        self.numbers = (0u32..).zip(&self.all).map(|(number, known)| (known.at, number)).collect();
        for at in hurried {
            if let Some(&number) = self.numbers.get(&at) {
                self.hurried.entry((at.0.tree, at.0.field)).or_default().push(number);
            }
        }
        self.changes += 1;
    }

    /// Takes the instances that go now, by processor.
    pub fn take_due(&mut self) -> Vec<(ProcessorId, Vec<ColumnKey>)> {
        let mut due = std::mem::take(&mut self.due);
        due.sort_by_key(|(_, processor)| *processor);
        let by_processor = due.chunk_by(|a, b| a.1 == b.1);
        by_processor.map(|all| (all[0].1, all.iter().map(|(key, _)| *key).collect())).collect()
    }
}

impl Known {
    fn use_now(&mut self, launch: u64) {
        if launch != self.used {
            self.every = Some(launch - self.used);
        }
        self.used = launch;
    }

    /// Whether it is in use, or is expected to be used again.
    fn comes_again(&self, launch: u64) -> bool {
        self.used == launch || self.every.is_some_and(|every| launch <= self.used + 2 * every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_regions::{FieldId, Rect, TreeId};
    use proptest::prelude::*;

    fn key(lo: i64, hi: i64) -> ColumnKey {
        ColumnKey { tree: TreeId(0), field: FieldId(0), rect: Rect::line(lo, hi) }
    }

    /// Bytes of a value.
    const VALUE: usize = 100;

    /// A launcher beside a model that really has instances: maps from points to version numbers.
    #[derive(Default)]
    struct Model {
        kept: Kept,
        versions: Versions,
        instances: HashMap<At, HashMap<i64, u64>>,
        truth: HashMap<i64, u64>,
        /// Instances that have gone, and the launches after which they went.
        gone: Vec<(u64, At)>,
        /// The mapper keeps none.
        keeps_none: bool,
    }

    impl Model {
        /// A launch that reads or writes columns, each on a processor.
        fn launch(&mut self, writes: bool, columns: &[At], bound: Option<usize>) {
            let may_stay = bound != Some(0) && !self.keeps_none;
            self.kept.begin();
            let used =
                self.kept.note(columns.iter().map(|&(key, at)| ((key, at), VALUE * key.rect.volume(), may_stay)));
            assert!(used.numbers.len() <= columns.len());
            for &(key, at) in columns {
                let points = key.rect.lo(0)..key.rect.hi(0);
                let mut moves = Vec::new();
                self.versions.read(&key, key.rect, at, |_, holders| holders[0], |source, t| moves.push((source, t)));
                for (source, t) in moves {
                    let from = &self.instances[&(ColumnKey { rect: t.from, ..key }, source)];
                    let values: Vec<_> =
                        (t.rect.lo(0)..t.rect.hi(0)).filter_map(|x| Some((x, *from.get(&x)?))).collect();
                    self.instances.entry((key, at)).or_default().extend(values);
                }
                self.versions.hold(&key, key.rect, at);
                let here = self.instances.entry((key, at)).or_default();
                for x in points {
                    assert_eq!(self.truth.get(&x).filter(|version| here.get(&x) != Some(version)), None, "point {x}");
                    if writes {
                        here.insert(x, self.kept.launches);
                        self.truth.insert(x, self.kept.launches);
                    }
                }
                if writes {
                    self.versions.write(&key, key.rect, at);
                }
            }
            self.kept.give_up(&mut self.versions, bound);
            for (at, keys) in self.kept.take_due() {
                for key in keys {
                    assert!(self.instances.remove(&(key, at)).is_some(), "{key:?} on {at} goes twice");
                    self.gone.push((self.kept.launches, (key, at)));
                }
            }
        }

        /// It learns what the gang of an inner task has written.
        fn learn(&mut self, (key, at): At, version: u64) {
            let here = self.instances.entry((key, at)).or_default();
            for x in key.rect.lo(0)..key.rect.hi(0) {
                here.insert(x, version);
                self.truth.insert(x, version);
            }
            self.versions.write(&key, key.rect, at);
        }

        fn bytes(&self) -> usize {
            self.instances.keys().map(|(key, _)| VALUE * key.rect.volume() + OVERHEAD).sum()
        }
    }

    proptest! {
        /// Whatever goes, every reader gets the values written last. With no memory for spare instances, what stays has the
        /// newest values of some point, or was used by this launch.
        #[test]
        fn what_goes_is_never_missed(
            steps in prop::collection::vec((any::<bool>(), 0i64..20, 1i64..20, 0u32..3), 1..60), bound in 0usize..3
        ) {
            let mut model = Model::default();
            for (writes, lo, len, at) in steps {
                model.launch(writes, &[(key(lo, lo + len), ProcessorId(at))], Some(bound * 2000));
                if bound == 0 {
                    for (at, values) in &model.instances {
                        let known = &model.kept.all[model.kept.numbers[at] as usize];
                        let others = || model.instances.iter().filter(|(other, _)| *other != at);
                        let needed = values.iter().any(|(x, version)| {
                            model.truth.get(x) == Some(version) && !others().any(|(_, o)| o.get(x) == Some(version))
                        });
                        // A piece that a copy has only a part of counts for the instance that has all of it.
                        let whole = model.versions.needs(&at.0, at.1);
                        prop_assert!(whole || !needed);
                        prop_assert!(whole || known.used == model.kept.launches, "{:?}", at);
                    }
                }
            }
        }
    }

    proptest! {
        /// One copy of the top-level task learns at once what the gangs of an inner task have written, the other when it
        /// awaits the inner task, which is before it uses that data again. Both give up the same.
        #[test]
        fn all_copies_give_up_the_same(
            steps in prop::collection::vec((0u32..4, 0i64..20, 1i64..20, 0u32..3, any::<bool>()), 1..60),
            bound in 0usize..3
        ) {
            let (mut early, mut late) = (Model::default(), Model::default());
            let mut unknown: Vec<(At, u64)> = Vec::new();
            for (step, (kind, lo, len, at, hurried)) in (1u64 << 32..).zip(steps) {
                let (at, key) = (ProcessorId(at), key(lo, lo + len));
                let bound = Some(if hurried { 0 } else { bound * 2000 });
                for (written, version) in unknown.extract_if(.., |(written, _)| written.0.rect.overlaps(&key.rect)) {
                    late.learn(written, version);
                }
                for model in [&mut early, &mut late] {
                    model.launch(kind > 0, &[(key, at)], bound);
                    if kind == 3 {
                        model.kept.doubt([key].into_iter());
                    }
                }
                if kind == 3 {
                    let written = (key, ProcessorId(3));
                    early.learn(written, step);
                    unknown.push((written, step));
                }
                prop_assert_eq!(&early.gone, &late.gone);
            }
        }
    }

    #[test]
    fn blocks_that_move_leave_nothing_behind() {
        let mut model = Model::default();
        for i in 0..2000i64 {
            let (cut, before) = (200 + i * 79 % 200, model.kept.all.len());
            model.launch(true, &[(key(0, cut), ProcessorId(0)), (key(cut, 600), ProcessorId(1))], None);
            let (bytes, known) = (model.bytes(), model.kept.all.len());
            assert!(bytes <= 4 * 600 * VALUE && known <= 100, "launch {i}: {bytes} bytes, {known} known");
            // Of those that have gone, as many are known as there are others, though two were used last by each launch.
            let there = model.kept.all.iter().filter(|known| known.there).count();
            assert!(known > before || known >= 2 * there, "launch {i}: {known} known, {there} there");
        }
    }

    /// However many have gone since an instance was used last, it goes once its values are elsewhere.
    #[test]
    fn what_the_mapper_does_not_keep_goes_at_once() {
        let mut model = Model { keeps_none: true, ..Model::default() };
        model.launch(true, &[(key(0, 100), ProcessorId(0))], None);
        for i in 0..1000i64 {
            model.launch(true, &[(key(100 + i % 20, 130 + i % 613), ProcessorId(1))], Some(1));
        }
        assert!(model.kept.all.len() < 500, "most are forgotten");
        model.launch(true, &[(key(0, 1000), ProcessorId(2))], Some(1 << 30));
        assert_eq!(model.instances.keys().collect::<Vec<_>>(), [&(key(0, 1000), ProcessorId(2))]);
    }

    /// Five launches after another read all data, on a processor each. All copies together are five times the data.
    #[test]
    fn copies_that_come_again_stay() {
        let mut model = Model::default();
        model.launch(true, &[(key(0, 1000), ProcessorId(0))], None);
        for round in 0..10 {
            let before = model.kept.changes;
            for window in 0..5 {
                model.launch(false, &[(key(window, 1000 - window), ProcessorId(0))], None);
            }
            assert!(round < 3 || model.kept.changes == before, "round {round}");
        }
    }
}
