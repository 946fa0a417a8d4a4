//! Leases against brute force, and what instances refuse while they are out.

use maniple_regions::{
    Coherence, Field, Instance, Lease, MemoryId, Privilege, Read, ReadWrite, Rect, ReductionId, RegionError,
    SharedInstance, Write,
};
use proptest::prelude::*;

const U: Field<u64> = Field::new(0, "u");
const SUM: Privilege = Privilege::Reduce(ReductionId::new("sum"));

fn instance(rect: Rect) -> Instance {
    Instance::new(rect, U.info(), MemoryId(3)).unwrap()
}

fn exclusive(instance: &Instance, rect: Rect, privilege: Privilege) -> Result<Lease, RegionError> {
    instance.lease(rect, privilege, Coherence::Exclusive)
}

fn privileges() -> impl Strategy<Value = Privilege> {
    prop_oneof![
        3 => Just(Privilege::Read),
        1 => Just(Privilege::ReadWrite),
        1 => Just(Privilege::WriteDiscard),
        1 => Just(SUM),
    ]
}

/// A step of a random life of an instance of 6 x 4 points.
#[derive(Clone, Debug)]
enum Step {
    Lease(Rect, Privilege, Coherence),
    Release(usize),
    Lose(usize),
    ReadBytes(Rect),
    Fill(Rect),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rect = || {
        prop_oneof![
            1 => Just(Rect::new([0, 0], [6, 4])),
            3 => (0_i64..7, 0_i64..5, 0_i64..4, 0_i64..4)
                .prop_map(|(i, j, n, m)| Rect::new([i, j], [(i + n).min(6), (j + m).min(4)])),
        ]
    };
    let coherence = prop_oneof![Just(Coherence::Exclusive), Just(Coherence::Atomic)];
    prop::collection::vec(
        prop_oneof![
            8 => (rect(), privileges(), coherence).prop_map(|(r, p, c)| Step::Lease(r, p, c)),
            6 => (0_usize..50).prop_map(Step::Release),
            1 => (0_usize..50).prop_map(Step::Lose),
            2 => rect().prop_map(Step::ReadBytes),
            2 => rect().prop_map(Step::Fill),
        ],
        1..60,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The model counts, for every point, the readers and writers that are out.
    #[test]
    fn no_point_is_ever_shared_with_a_writer(steps in steps()) {
        let instance = instance(Rect::new([0, 0], [6, 4]));
        let (mut readers, mut writers) = ([[0_usize; 4]; 6], [[0_usize; 4]; 6]);
        let mut out: Vec<Lease> = Vec::new();
        let free = |counts: &[[usize; 4]; 6], rect: &Rect| {
            rect.points().all(|[i, j]| counts[i as usize][j as usize] == 0)
        };
        for step in steps {
            match step {
                Step::Lease(rect, privilege, coherence) => {
                    let writes = privilege != Privilege::Read;
                    let expected = free(&writers, &rect) && (!writes || free(&readers, &rect));
                    match instance.lease(rect, privilege, coherence) {
                        Ok(lease) => {
                            prop_assert!(expected, "{:?} was given", lease);
                            prop_assert_eq!((lease.rect(), lease.privilege()), (rect, privilege));
                            prop_assert_eq!((lease.coherence(), lease.field()), (coherence, &U.info()));
                            for [i, j] in rect.points() {
                                let counts = if writes { &mut writers } else { &mut readers };
                                counts[i as usize][j as usize] += 1;
                            }
                            out.push(lease);
                        }
                        Err(RegionError::Leased { asked, out: held, wanted, .. }) => {
                            prop_assert!(!expected, "{} of {} was refused for {}", privilege, rect, held);
                            prop_assert_eq!((*asked, wanted), (rect, privilege));
                            prop_assert!(held.overlaps(&rect));
                            prop_assert!(out.iter().any(|lease| lease.rect() == *held) || !free(&writers, &held)
                                || !free(&readers, &held));
                        }
                        Err(other) => prop_assert!(false, "{}", other),
                    }
                }
                Step::Release(which) if !out.is_empty() => {
                    let lease = out.swap_remove(which % out.len());
                    let counts = if lease.privilege() == Privilege::Read { &mut readers } else { &mut writers };
                    for [i, j] in lease.rect().points() {
                        counts[i as usize][j as usize] -= 1;
                    }
                    instance.release(lease).unwrap();
                }
                // Stays counted for ever.
                Step::Lose(which) if !out.is_empty() => drop(out.swap_remove(which % out.len())),
                Step::Release(_) | Step::Lose(_) => {}
                Step::ReadBytes(rect) => {
                    prop_assert_eq!(instance.read_bytes(rect).is_ok(), free(&writers, &rect));
                }
                Step::Fill(rect) => {
                    let expected = free(&writers, &rect) && free(&readers, &rect);
                    prop_assert_eq!(instance.fill(rect, &[1; 8]).is_ok(), expected);
                    let zeros = vec![0; rect.volume() * 8];
                    prop_assert_eq!(instance.write_bytes(rect, &zeros).is_ok(), expected);
                    let other = self::instance(Rect::new([0, 0], [6, 4]));
                    prop_assert_eq!(instance.copy_from(&other, rect).is_ok(), expected);
                    prop_assert_eq!(other.copy_from(&instance, rect).is_ok(), free(&writers, &rect));
                }
            }
        }
    }
}

#[test]
fn overlapping_exclusive_leases_are_refused() {
    let instance = instance(Rect::line(0, 100));
    let first = exclusive(&instance, Rect::line(0, 51), Privilege::ReadWrite).unwrap();
    let refused = exclusive(&instance, Rect::line(50, 100), Privilege::Read).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "field `u`: read of [50, 100) interferes with a read-write lease of [0, 51): \
         release that lease first"
    );
    instance.release(first).unwrap();
    let second = exclusive(&instance, Rect::line(50, 100), Privilege::Read).unwrap();
    instance.release(second).unwrap();
}

#[test]
fn disjoint_leases_work_on_two_threads() {
    let instance = instance(Rect::line(0, 1000));
    let halves = [Rect::line(0, 500), Rect::line(500, 1000)];
    for round in 1..=50_u64 {
        let leases = halves.map(|half| exclusive(&instance, half, Privilege::ReadWrite).unwrap());
        let back: Vec<Lease> = std::thread::scope(|scope| {
            let threads = leases.map(|mut lease| {
                scope.spawn(move || {
                    ReadWrite::<u64>::bind(&mut lease).unwrap().as_mut_slice().iter_mut().for_each(|u| *u += 1);
                    lease
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        back.into_iter().for_each(|lease| instance.release(lease).unwrap());
        let bytes = instance.read_bytes(instance.rect()).unwrap();
        assert!(bytes.as_slice::<u64>().unwrap().iter().all(|&u| u == round));
    }
}

#[test]
fn equal_reductions_and_atomic_leases_take_turns() {
    let instance = instance(Rect::line(0, 10));
    for coherence in [Coherence::Exclusive, Coherence::Atomic] {
        let first = instance.lease(Rect::line(0, 10), SUM, coherence).unwrap();
        assert!(matches!(instance.lease(Rect::line(9, 10), SUM, coherence), Err(RegionError::Leased { .. })));
        instance.release(first).unwrap();
    }
}

#[test]
fn a_lost_lease_is_out_for_ever() {
    let instance = instance(Rect::line(0, 10));
    drop(exclusive(&instance, Rect::line(2, 4), Privilege::ReadWrite).unwrap());
    assert!(exclusive(&instance, Rect::line(0, 10), Privilege::Read).is_err());
    assert!(exclusive(&instance, Rect::line(4, 10), Privilege::Read).is_ok());
    assert!(instance.read_bytes(Rect::line(3, 4)).is_err());
}

#[test]
fn a_foreign_lease_comes_back() {
    let (here, there) = (instance(Rect::line(0, 10)), instance(Rect::line(0, 10)));
    let lease = exclusive(&there, Rect::line(0, 10), Privilege::ReadWrite).unwrap();
    let returned = here.release(lease).unwrap_err();
    assert!(matches!(returned.error, RegionError::ForeignLease { memory: MemoryId(3), .. }));
    there.release(returned.lease).unwrap();
    drop(exclusive(&there, Rect::line(0, 10), Privilege::ReadWrite).unwrap());

    let shared = SharedInstance::new(Rect::line(0, 10), U.info(), MemoryId(0)).unwrap();
    assert!(here.release(shared.lease(Rect::line(0, 10), Privilege::Read).unwrap()).is_err());
}

#[test]
fn a_lease_outlives_its_instance() {
    let instance = instance(Rect::line(0, 10));
    instance.fill(Rect::line(0, 10), &7_u64.to_ne_bytes()).unwrap();
    let mut lease = exclusive(&instance, Rect::line(3, 5), Privilege::Read).unwrap();
    drop(instance);
    assert_eq!(Read::<u64>::bind(&mut lease).unwrap().as_slice(), [7, 7]);
}

#[test]
fn empty_rectangles_are_in_nobodys_way() {
    let instance = instance(Rect::line(0, 10));
    let whole = exclusive(&instance, Rect::line(0, 10), Privilege::ReadWrite).unwrap();
    let mut empty = exclusive(&instance, Rect::line(5, 5), Privilege::ReadWrite).unwrap();
    assert!(Write::<u64>::bind(&mut empty).unwrap().as_mut_slice().is_empty());
    instance.release(empty).unwrap();
    instance.release(whole).unwrap();

    let nothing = self::instance(Rect::line(4, 4));
    let one = exclusive(&nothing, Rect::line(4, 4), Privilege::ReadWrite).unwrap();
    let mut other = exclusive(&nothing, Rect::line(4, 4), Privilege::ReadWrite).unwrap();
    assert_eq!(ReadWrite::<u64>::bind(&mut other).unwrap().as_slice(), [0u64; 0]);
    nothing.release(one).unwrap();
    nothing.release(other).unwrap();
    assert_eq!(nothing.bytes(), 0);
}

#[test]
fn what_is_not_covered_is_refused() {
    let instance = instance(Rect::line(0, 10));
    for rect in [Rect::line(-1, 3), Rect::line(8, 11), Rect::new([0, 0], [1, 1])] {
        let refused = exclusive(&instance, rect, Privilege::Read).unwrap_err();
        assert!(matches!(&refused, RegionError::OutsideInstance { asked, .. } if **asked == rect), "{refused}");
        assert!(instance.read_bytes(rect).is_err());
        assert!(instance.fill(rect, &[0; 8]).is_err());
    }
    let simultaneous = instance.lease(Rect::line(0, 1), Privilege::Read, Coherence::Simultaneous);
    assert!(matches!(simultaneous, Err(RegionError::WrongCoherence { .. })));
    let huge = Instance::new(Rect::new([0; 3], [1 << 30; 3]), U.info(), MemoryId(0));
    assert!(matches!(huge, Err(RegionError::OutOfMemory { .. })));
    let huge = Instance::new(Rect::line(0, i64::MAX), U.info(), MemoryId(0));
    assert!(matches!(huge, Err(RegionError::OutOfMemory { .. })));
}

#[test]
fn sends_what_it_should() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Instance>();
    send::<Lease>();
    send::<SharedInstance>();
    sync::<SharedInstance>();
    send::<RegionError>();
}
