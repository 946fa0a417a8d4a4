//! An interpreter on terms: the laws that schedules ask for.

use super::{Kind, Program, St, Wanted};
use maniple_collectives::{Combine, Laws, Part};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// An expression on contributions.
#[derive(PartialEq, Eq, Hash)]
enum Term {
    Leaf(usize, u32),
    Both(Rc<Term>, Rc<Term>),
    Without(Rc<Term>, Rc<Term>),
}

impl Term {
    /// A text that is the same for all terms that are one up to swapped operands.
    fn form(&self) -> String {
        match self {
            Term::Leaf(of, block) => format!("{of}.{block}"),
            Term::Both(a, b) => {
                let mut sides = [a.form(), b.form()];
                sides.sort();
                format!("({} {})", sides[0], sides[1])
            }
            Term::Without(a, b) => format!("({} - {})", a.form(), b.form()),
        }
    }

    /// The contributors from left to right, unless something is taken out.
    fn leaves(&self) -> Option<Vec<usize>> {
        match self {
            Term::Leaf(of, _) => Some(vec![*of]),
            Term::Both(a, b) => Some([a.leaves()?, b.leaves()?].concat()),
            Term::Without(..) => None,
        }
    }

    /// How often each contribution is in it.
    fn count(&self, counts: &mut HashMap<usize, i64>, times: i64) {
        match self {
            Term::Leaf(of, _) => *counts.entry(*of).or_default() += times,
            Term::Both(a, b) => [a, b].into_iter().for_each(|side| side.count(counts, times)),
            Term::Without(a, b) => {
                a.count(counts, times);
                b.count(counts, -times);
            }
        }
    }

    fn forms(&self, all: &mut HashSet<String>) {
        if let Term::Both(a, b) | Term::Without(a, b) = self {
            all.insert(self.form());
            a.forms(all);
            b.forms(all);
        }
    }
}

type Registers = HashMap<(u8, u32), Rc<Term>>;

/// Runs schedules that are known to be sound on terms. Returns the laws that they ask for.
pub(super) fn laws_of(program: &Program) -> Laws {
    let task = &program.task;
    let mut ranks: Vec<Registers> = (0..task.shards)
        .map(|rank| match task.gives(rank) {
            None => Registers::new(),
            Some(of) => task.given(rank).map(|block| ((0, block), Rc::new(Term::Leaf(of, block)))).collect(),
        })
        .collect();
    let mut made: HashSet<String> = HashSet::new();
    let mut undone = false;
    // As neighbours on one processor combine in place: in pairs, then these, and so on. Or the first gathers the others' blocks.
    for group in program.groups.iter().filter(|group| group.len() > 1).collect::<HashSet<_>>() {
        if task.kind == Kind::Gather {
            for rank in group.clone().skip(1) {
                let others = ranks[rank as usize].clone();
                ranks[group.start as usize].extend(others);
            }
            continue;
        }
        let mut distance = 1;
        while distance < group.len() {
            for i in (group.start as usize..group.end as usize).step_by(2 * distance) {
                if i + distance < group.end as usize {
                    for block in 0..task.blocks {
                        let [a, b] = [i, i + distance].map(|rank| ranks[rank][&(0, block)].clone());
                        let term = Rc::new(Term::Both(a, b));
                        made.insert(term.form());
                        ranks[i].insert((0, block), term);
                    }
                }
            }
            distance *= 2;
        }
    }
    let mut mail: HashMap<u32, Vec<Rc<Term>>> = HashMap::new();
    let mut done = vec![0; ranks.len()];
    loop {
        let before = done.clone();
        for (rank, steps) in program.steps.iter().enumerate() {
            while let Some(step) = steps.get(done[rank]) {
                let take = |part: &Part, of: &Registers| {
                    part.blocks.clone().map(|block| of[&(part.register, block)].clone()).collect::<Vec<_>>()
                };
                let (values, part, how) = match step {
                    St::Send { id, part, .. } => {
                        mail.insert(*id, take(part, &ranks[rank]));
                        done[rank] += 1;
                        continue;
                    }
                    St::Receive { id, part, how, .. } => {
                        let Some(values) = mail.remove(id) else { break };
                        (values, part, how)
                    }
                    St::Local { from, part, how } => (take(from, &ranks[rank]), part, how),
                };
                for (block, value) in part.blocks.clone().zip(values) {
                    let place = (part.register, block);
                    let own = ranks[rank].get(&place).cloned();
                    let term = match how {
                        Combine::Replace => value,
                        Combine::IncomingIsHigher => Rc::new(Term::Both(own.expect("a value"), value)),
                        Combine::IncomingIsLower => Rc::new(Term::Both(value, own.expect("a value"))),
                        Combine::Undo => {
                            undone = true;
                            Rc::new(Term::Without(own.expect("a value"), value))
                        }
                    };
                    if let (Term::Both(..), true) = (&*term, *how != Combine::Replace) {
                        made.insert(term.form());
                    }
                    ranks[rank].insert(place, term);
                }
                done[rank] += 1;
            }
        }
        if done == before {
            break;
        }
    }
    assert!(done.iter().zip(&program.steps).all(|(done, steps)| *done == steps.len()), "a deadlock");

    let mut laws = Laws { invertible: undone, ..Laws::NONE };
    let (mut firsts, mut live): (HashMap<(usize, u32), Rc<Term>>, _) = (HashMap::new(), HashSet::new());
    for rank in 0..task.shards {
        // The other ranks of a group have what its first rank has.
        let leader = program.groups[rank as usize].start as usize;
        for (place, wanted) in task.wanted(rank) {
            let term = &ranks[leader][&(program.results[leader], place)];
            let Wanted::Fold { first, block } = wanted else { continue };
            let mut counts = HashMap::new();
            term.count(&mut counts, 1);
            assert!(counts.len() == first && counts.values().all(|n| *n > 0), "not what is wanted");
            let in_order: Vec<usize> = (0..first).collect();
            let is_in_order = |term: &Term| term.leaves().is_some_and(|leaves| leaves == in_order);
            let often = counts.values().any(|n| *n > 1);
            laws.commutative |= !is_in_order(term);
            laws.idempotent |= often;
            laws.associative |= often || term.form().contains('-');
            let same = firsts.entry((first, block)).or_insert_with(|| term.clone());
            laws.associative |= term != same && (is_in_order(term) && is_in_order(same) || term.form() != same.form());
            term.forms(&mut live);
        }
    }
    laws.infallible = laws.associative || made.iter().any(|form| !live.contains(form));
    laws
}
