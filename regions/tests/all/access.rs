//! Accessors and bulk operations against a plain array.

use std::collections::HashMap;

use maniple_regions::{
    Buffer, Coherence, ExactSum, Field, Instance, Lease, Located, MemoryId, Operator, Privilege, Read, ReadShared,
    ReadWrite, ReadWriteShared, Rect, Reduce, ReductionId, RegionError, SharedInstance, Write, WriteShared,
};
use proptest::prelude::*;

const U: Field<i64> = Field::new(0, "u");

type Model = HashMap<[i64; 2], i64>;

fn numbered(rect: Rect) -> Model {
    rect.points().map(|[i, j]| ([i, j], 100 * i + j)).collect()
}

/// The bytes of `rect`, row-major, by the model.
fn bytes(model: &Model, rect: Rect) -> Buffer {
    let bytes: Vec<u8> = rect.points().flat_map(|point: [i64; 2]| model[&point].to_ne_bytes()).collect();
    Buffer::from_bytes(&bytes)
}

fn instance(rect: Rect, model: &Model) -> Instance {
    // Nothing but `padded` depends on the room around the elements.
    let instance = Instance::new(rect, U.info().with_padding(rect.volume() % 3), MemoryId(0)).unwrap();
    instance.write_bytes(rect, bytes(model, rect).as_bytes()).unwrap();
    instance
}

fn shared(rect: Rect, model: &Model) -> SharedInstance {
    let instance = SharedInstance::new(rect, U.info(), MemoryId(0)).unwrap();
    instance.write_bytes(rect, bytes(model, rect).as_bytes()).unwrap();
    instance
}

/// An instance's rectangle and one within it.
fn nested() -> impl Strategy<Value = (Rect, Rect)> {
    let rect =
        |span: i64| (-3_i64..3, -3_i64..3, 0..span, 0..span).prop_map(|(i, j, n, m)| Rect::new([i, j], [i + n, j + m]));
    (rect(7), rect(7)).prop_map(|(whole, part)| (whole, whole.intersect(&part)))
}

fn lease(instance: &Instance, rect: Rect, privilege: Privilege) -> Lease {
    instance.lease(rect, privilege, Coherence::Exclusive).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn parts_of_shared_regions_are_copied_in_and_out((whole, leased) in nested(), (_, part) in nested()) {
        let mut model = numbered(whole);
        let instance = shared(whole, &model);
        let mut lease = instance.lease(leased, Privilege::ReadWrite).unwrap();
        let mut u = ReadWriteShared::<i64, 2>::bind(&mut lease).unwrap();
        let part = leased.intersect(&part);
        let mut values = vec![0; part.volume()];
        u.copy_part_to(part, &mut values);
        let expected: Vec<i64> = part.points().map(|point: [i64; 2]| model[&point]).collect();
        prop_assert_eq!(&values, &expected);
        let negated: Vec<i64> = values.iter().map(|value| -value).collect();
        u.copy_part_from(part, &negated);
        part.points().for_each(|point: [i64; 2]| model.insert(point, -model[&point]).map_or((), drop));
        let all = instance.read_bytes(whole).unwrap();
        let expected = bytes(&model, whole);
        prop_assert_eq!(all.as_bytes(), expected.as_bytes());
    }

    #[test]
    fn reading_sees_every_point((whole, part) in nested()) {
        let model = numbered(whole);
        let expected: Vec<i64> = part.points().map(|point: [i64; 2]| model[&point]).collect();
        let instance = instance(whole, &model);
        let mut lease = lease(&instance, part, Privilege::Read);
        let u = Read::<i64, 2>::bind(&mut lease).unwrap();
        prop_assert_eq!(u.len(), part.volume());
        prop_assert_eq!(u.is_empty(), part.is_empty());
        prop_assert_eq!(u.rows().flatten().copied().collect::<Vec<_>>(), expected.clone());
        for point in whole.points::<2>() {
            prop_assert_eq!(u.try_get(point), part.contains(point).then(|| model[&point]));
        }
        prop_assert_eq!(u.row(u.rows().len()), None);
        match u.slice() {
            Some(slice) => prop_assert_eq!(slice, &expected[..]),
            None => {
                let padded = instance.field().padding() > 0;
                prop_assert!(part.extent(0) > 1 && (padded || part.extent(1) < whole.extent(1)));
            }
        }
        prop_assert_eq!(instance.read_bytes(part).unwrap(), bytes(&model, part));

        let shared = shared(whole, &model);
        let mut lease = shared.lease(part, Privilege::Read).unwrap();
        let u = ReadShared::<i64, 2>::bind(&mut lease).unwrap();
        let mut copied = vec![0; part.volume()];
        u.copy_to(&mut copied);
        prop_assert_eq!(&copied, &expected);
        for point in part.points::<2>() {
            prop_assert_eq!(u.get(point), model[&point]);
        }
        prop_assert_eq!(shared.read_bytes(part).unwrap(), bytes(&model, part));
        let copy = shared.copy(part, MemoryId(9)).unwrap();
        prop_assert_eq!((copy.rect(), copy.memory()), (part, MemoryId(9)));
        prop_assert_eq!(copy.read_bytes(part).unwrap(), bytes(&model, part));
    }

    /// Every way to write changes the points of the lease as it should, and no other.
    #[test]
    fn writing_changes_its_points_only((whole, part) in nested(), way in 0..14) {
        let mut model = numbered(whole);
        let instance = instance(whole, &model);
        let shared = shared(whole, &model);
        let values: Vec<i64> = (0..part.volume() as i64).map(|at| -1 - at).collect();
        for (at, point) in part.points::<2>().enumerate() {
            let old = model[&point];
            let new = match way {
                1 | 9 | 11 | 13 => 5,
                5 => old + values[at],
                6 => old.max(values[at] + 3),
                _ => values[at],
            };
            model.insert(point, new);
        }
        let mut out = match way {
            5 => lease(&instance, part, Privilege::Reduce(ReductionId::new("sum"))),
            6 => lease(&instance, part, Privilege::Reduce(ReductionId::new("max"))),
            3 | 4 => lease(&instance, part, Privilege::ReadWrite),
            7..=9 => shared.lease(part, Privilege::WriteDiscard).unwrap(),
            // The instance itself writes below.
            10.. => shared.lease(part, Privilege::Read).unwrap(),
            _ => lease(&instance, part, Privilege::WriteDiscard),
        };
        match way {
            0 => Write::<i64, 2>::bind(&mut out).unwrap().copy_from_slice(&values),
            1 => Write::<i64, 2>::bind(&mut out).unwrap().fill(5),
            2 => {
                let mut to_come = part.points().zip(&values);
                let next = |point| to_come.next().filter(|next| next.0 == point).map(|next| *next.1).unwrap();
                Write::<i64, 2>::bind(&mut out).unwrap().fill_with(next);
            }
            3 => {
                let mut u = ReadWrite::<i64, 2>::bind(&mut out).unwrap();
                part.points().for_each(|point| u.set(point, 1000 * point[0] + point[1]));
                part.points().for_each(|[i, j]| assert_eq!(u.get([i, j]), 1000 * i + j));
                u.fill_with(|point| values[part.position(point).unwrap()]);
            }
            4 => {
                let mut u = ReadWrite::<i64, 2>::bind(&mut out).unwrap();
                let elements: Vec<&mut i64> = u.rows_mut().flatten().collect();
                elements.into_iter().zip(&values).for_each(|(element, &value)| *element = value);
            }
            5 => Reduce::<i64, 2>::bind(&mut out, Operator::sum()).unwrap().fold_slice(&values),
            6 => {
                let mut u = Reduce::<i64, 2>::bind(&mut out, Operator::max()).unwrap();
                part.points().zip(&values).for_each(|(point, &value)| u.fold(point, value + 3));
            }
            7 => WriteShared::<i64, 2>::bind(&mut out).unwrap().copy_from(&values),
            8 => {
                let mut u = WriteShared::<i64, 2>::bind(&mut out).unwrap();
                part.points().zip(&values).for_each(|(point, &value)| u.set(point, value));
            }
            9 => WriteShared::<i64, 2>::bind(&mut out).unwrap().fill(5),
            10 => {
                instance.write_bytes(part, bytemuck::cast_slice(&values)).unwrap();
                shared.write_bytes(part, bytemuck::cast_slice(&values)).unwrap();
            }
            11 => {
                instance.fill(part, &5_i64.to_ne_bytes()).unwrap();
                shared.fill(part, &5_i64.to_ne_bytes()).unwrap();
            }
            _ => {
                // A source with another shape around the part.
                let around = Rect::new([part.lo(0) - 1, part.lo(1) - 2], [part.hi(0) + 2, part.hi(1) + 1]);
                let source = Instance::new(around, U.info(), MemoryId(1)).unwrap();
                source.write_bytes(part, bytes(&model, part).as_bytes()).unwrap();
                instance.copy_from(&source, part).unwrap();
                let source = SharedInstance::new(around, U.info(), MemoryId(1)).unwrap();
                source.write_bytes(part, bytes(&model, part).as_bytes()).unwrap();
                shared.copy_from(&source, part).unwrap();
            }
        }
        if way < 7 {
            instance.release(out).unwrap();
        }
        if !(7..10).contains(&way) {
            prop_assert_eq!(instance.read_bytes(whole).unwrap(), bytes(&model, whole));
        }
        if way >= 7 {
            prop_assert_eq!(shared.read_bytes(whole).unwrap(), bytes(&model, whole));
        }
    }

    #[test]
    fn three_dimensions(part in (0_i64..3, 0_i64..4, 0_i64..5, 0_i64..4, 0_i64..5, 0_i64..6)) {
        let whole = Rect::new([-1, 0, 10], [2, 4, 15]);
        let part = Rect::new([part.0 - 1, part.1, part.2 + 10], [part.3 - 1, part.4, part.5 + 10]).intersect(&whole);
        let instance = Instance::new(whole, U.info(), MemoryId(0)).unwrap();
        let mut all = lease(&instance, whole, Privilege::WriteDiscard);
        let mut u = Write::<i64, 3>::bind(&mut all).unwrap();
        u.fill_with(|[i, j, k]| 10_000 * i + 100 * j + k);
        instance.release(all).unwrap();
        let expected: Vec<i64> = part.points().map(|[i, j, k]| 10_000 * i + 100 * j + k).collect();
        let mut some = lease(&instance, part, Privilege::Read);
        let u = Read::<i64, 3>::bind(&mut some).unwrap();
        prop_assert_eq!(u.rows().flatten().copied().collect::<Vec<_>>(), expected.clone());
        if let Some(slice) = u.slice() {
            prop_assert_eq!(slice, &expected[..]);
        }
        for point in part.points::<3>() {
            prop_assert_eq!(u.get(point), 10_000 * point[0] + 100 * point[1] + point[2]);
        }
        prop_assert_eq!(instance.read_bytes(part).unwrap(), Buffer::from_slice(&expected));
    }
}

#[test]
fn a_line_is_a_slice_at_its_place() {
    let field: Field<f64> = Field::new(0, "u");
    let instance = Instance::new(Rect::line(-2, 6), field.info(), MemoryId(0)).unwrap();
    let mut whole = lease(&instance, Rect::line(-2, 6), Privilege::WriteDiscard);
    let mut u = Write::<f64>::bind(&mut whole).unwrap();
    for (at, slot) in u.as_mut_slice().iter_mut().enumerate() {
        slot.set(at as f64);
    }
    instance.release(whole).unwrap();
    let mut part = lease(&instance, Rect::line(0, 3), Privilege::Read);
    let u = Read::<f64>::bind(&mut part).unwrap();
    assert_eq!(u.as_slice(), [2.0, 3.0, 4.0]);
    assert_eq!(u.slice(), Some(u.as_slice()));
    assert_eq!((u.rect(), u.get([2])), (Rect::line(0, 3), 4.0));
}

#[test]
fn instances_start_at_zero_and_on_a_cache_line() {
    for size in [1, 7, 8, 100] {
        let instance = Instance::new(Rect::line(0, size), U.info(), MemoryId(0)).unwrap();
        let mut whole = lease(&instance, Rect::line(0, size), Privilege::ReadWrite);
        let u = ReadWrite::<i64>::bind(&mut whole).unwrap();
        assert_eq!(u.as_slice().as_ptr().align_offset(64), 0);
        assert!(u.as_slice().iter().all(|&u| u == 0));
    }
}

#[test]
fn accessors_need_the_right_lease() {
    let instance = Instance::new(Rect::line(0, 4), U.info(), MemoryId(0)).unwrap();
    let shared = SharedInstance::new(Rect::line(0, 4), U.info(), MemoryId(0)).unwrap();
    let sum = Privilege::Reduce(ReductionId::new("sum"));
    // Lease, then whether Read, ReadWrite, Write, and Reduce with the sum and the maximum, may be bound.
    let table = [
        (Privilege::Read, [true, false, false, false, false]),
        (Privilege::ReadWrite, [true, true, true, true, true]),
        (Privilege::WriteDiscard, [false, false, true, false, false]),
        (sum, [false, false, false, true, false]),
    ];
    for (privilege, expected) in table {
        for coherence in [Coherence::Exclusive, Coherence::Atomic] {
            let mut lease = instance.lease(Rect::line(0, 4), privilege, coherence).unwrap();
            let bound = [
                Read::<i64>::bind(&mut lease).is_ok(),
                ReadWrite::<i64>::bind(&mut lease).is_ok(),
                Write::<i64>::bind(&mut lease).is_ok(),
                Reduce::<i64>::bind(&mut lease, Operator::sum()).is_ok(),
                Reduce::<i64>::bind(&mut lease, Operator::max()).is_ok(),
            ];
            assert_eq!(bound, expected, "{lease:?}");
            let error = ReadShared::<i64>::bind(&mut lease).unwrap_err();
            assert!(matches!(error, RegionError::WrongCoherence { .. }), "{error}");
            instance.release(lease).unwrap();
        }
    }
    let table = [
        (Privilege::Read, [true, false, false]),
        (Privilege::WriteDiscard, [false, true, false]),
        (Privilege::ReadWrite, [true, true, true]),
    ];
    for (privilege, expected) in table {
        let mut lease = shared.lease(Rect::line(0, 4), privilege).unwrap();
        let bound = [
            ReadShared::<i64>::bind(&mut lease).is_ok(),
            WriteShared::<i64>::bind(&mut lease).is_ok(),
            ReadWriteShared::<i64>::bind(&mut lease).is_ok(),
        ];
        assert_eq!(bound, expected, "{lease:?}");
        assert!(matches!(Read::<i64>::bind(&mut lease), Err(RegionError::WrongCoherence { .. })));
        assert!(matches!(Write::<i64>::bind(&mut lease), Err(RegionError::WrongCoherence { .. })));
    }
    assert!(matches!(shared.lease(Rect::line(0, 4), sum), Err(RegionError::NoSharedReduction { .. })));
}

#[test]
fn refusals_say_what_to_do() {
    let instance = Instance::new(Rect::line(0, 4), U.info(), MemoryId(0)).unwrap();
    let mut lease = lease(&instance, Rect::line(0, 4), Privilege::Read);
    assert_eq!(
        Read::<f64>::bind(&mut lease).unwrap_err().to_string(),
        "field `u` holds i64, but was used as f64: use the field's own element type"
    );
    assert_eq!(
        Read::<i64, 2>::bind(&mut lease).unwrap_err(),
        RegionError::WrongDimension { what: "Read of field `u`".into(), expected: 1, came: 2 }
    );
    assert_eq!(
        Write::<i64>::bind(&mut lease).unwrap_err().to_string(),
        "Write of field `u` needs write-discard, but the lease holds read: ask for a lease that covers it"
    );
    assert_eq!(
        ReadShared::<i64>::bind(&mut lease).unwrap_err().to_string(),
        "ReadShared of field `u` needs simultaneous coherence, got exclusive: use an exclusive accessor"
    );
    instance.release(lease).unwrap();
    let short = instance.write_bytes(Rect::line(0, 2), &[0; 15]).unwrap_err();
    assert_eq!(short.to_string(), "expected 16 bytes for [0, 2) of field `u`, got 15");
    assert!(matches!(instance.fill(Rect::line(0, 2), &[0; 4]), Err(RegionError::WrongLength { .. })));
    let other = Instance::new(Rect::line(0, 4), Field::<u64>::new(1, "v").info(), MemoryId(0)).unwrap();
    assert!(matches!(instance.copy_from(&other, Rect::line(0, 4)), Err(RegionError::WrongElement { .. })));
    instance.copy_from(&instance, Rect::line(0, 4)).unwrap();
}

#[test]
#[should_panic(expected = "point [4] lies outside the leased rectangle [1, 4)")]
fn a_point_outside_the_lease_panics() {
    let instance = Instance::new(Rect::line(0, 8), U.info(), MemoryId(0)).unwrap();
    let mut lease = lease(&instance, Rect::line(1, 4), Privilege::Read);
    Read::<i64>::bind(&mut lease).unwrap().get([4]);
}

#[test]
#[should_panic(expected = "expected 3 values for the leased rectangle [1, 4), got 2")]
fn the_wrong_number_of_values_panics() {
    let instance = Instance::new(Rect::line(0, 8), U.info(), MemoryId(0)).unwrap();
    let mut lease = lease(&instance, Rect::line(1, 4), Privilege::WriteDiscard);
    Write::<i64>::bind(&mut lease).unwrap().copy_from_slice(&[1, 2]);
}

/// An operator that does not commute: contributions are folded as the higher side.
#[test]
fn reductions_fold_the_contribution_as_the_higher_side() {
    let append = Operator::user("test::Append", |lower: &u64, higher: &u64| lower * 10 + higher);
    let field: Field<u64> = Field::new(0, "digits");
    let instance = Instance::new(Rect::line(0, 2), field.info(), MemoryId(0)).unwrap();
    let privilege = Privilege::Reduce(append.id());
    for digits in [[1, 4], [2, 5], [3, 6]] {
        let mut lease = lease(&instance, Rect::line(0, 2), privilege);
        let mut number = Reduce::<u64>::bind(&mut lease, append.clone()).unwrap();
        number.fold_slice(&digits);
        number.fold([0], 0);
        instance.release(lease).unwrap();
    }
    assert_eq!(instance.read_bytes(Rect::line(0, 2)).unwrap().as_slice::<u64>().unwrap(), [102030, 456]);
}

#[test]
fn a_part_that_reaches_outside_is_refused() {
    let whole = Rect::line(0, 8);
    let instance = SharedInstance::new(whole, U.info(), MemoryId(0)).unwrap();
    let mut lease = instance.lease(Rect::line(2, 6), Privilege::ReadWrite).unwrap();
    for (part, values) in
        [(Rect::line(1, 3), 2), (Rect::line(5, 7), 2), (Rect::new([2, 0], [3, 1]), 1), (Rect::line(2, 4), 3)]
    {
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ReadWriteShared::<i64>::bind(&mut lease).unwrap().copy_part_from(part, &vec![1; values]);
        }));
        assert!(refused.is_err(), "{part}, {values} values");
    }
    assert_eq!(instance.read_bytes(whole).unwrap().as_slice::<i64>().unwrap(), [0; 8]);
}

/// Region reductions follow the operators' own rules, for elements of several kinds.
#[test]
fn reductions_follow_the_rules_of_the_operator() {
    fn folded<T: maniple_regions::Element>(operator: &Operator<T>, start: T, values: &[T]) -> T {
        let field: Field<T> = Field::new(0, "values");
        let instance = Instance::new(Rect::line(0, 2), field.info(), MemoryId(0)).unwrap();
        instance.write_bytes(Rect::line(0, 2), bytemuck::cast_slice(&[start, start])).unwrap();
        let mut lease = lease(&instance, Rect::line(0, 2), Privilege::Reduce(operator.id()));
        let mut u = Reduce::<T>::bind(&mut lease, operator.clone()).unwrap();
        for &value in values {
            u.fold([0], value);
            u.fold_slice(&[T::zeroed(), value]);
        }
        instance.release(lease).unwrap();
        let bytes = instance.read_bytes(Rect::line(0, 2)).unwrap();
        bytes.as_slice::<T>().unwrap()[1]
    }
    let nan = f64::from_bits(0xfff8_0000_0000_0001);
    assert_eq!(folded(&Operator::min(), 1.0, &[nan, 2.0]).to_bits(), 0x7ff8_0000_0000_0000);
    assert_eq!(folded(&Operator::max(), -0.0_f64, &[0.0, -0.0]).to_bits(), 0);
    assert_eq!(folded(&Operator::xor(), 5_u8, &[1, 2]), 6);
    let least = folded(&Operator::minloc(), Located { value: 3_i64, at: 9 }, &[Located { value: 3, at: 4 }]);
    assert_eq!((least.value, least.at), (3, 4));
    let mut one = ExactSum::zero();
    one.add(1e16);
    let mut other = ExactSum::zero();
    other.add_slice(&[1.0, -1e16]);
    // A new instance is zero, and so is the sum of nothing.
    assert_eq!(folded(&ExactSum::operator(), ExactSum::zero(), &[one, other]).value(), 1.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Rows by the coordinates of the tree, in two dimensions and in three.
    #[test]
    fn rows_are_found_by_their_coordinates((whole, part) in nested()) {
        let model = numbered(whole);
        let row = |i: i64| (part.lo(1)..part.hi(1)).map(|j| model[&[i, j]]).collect::<Vec<_>>();
        let instance = instance(whole, &model);
        let mut reading = lease(&instance, part, Privilege::Read);
        let u = Read::<i64, 2>::bind(&mut reading).unwrap();
        for i in part.lo(0)..part.hi(0) {
            if !part.is_empty() {
                prop_assert_eq!(u.row_at(i), &row(i)[..]);
            }
        }
        instance.release(reading).unwrap();

        let deep = |rect: Rect| Rect::new([rect.lo(0), 5, rect.lo(1)], [rect.hi(0), 7, rect.hi(1)]);
        let cube = Instance::new(deep(whole), U.info(), MemoryId(0)).unwrap();
        let mut writing = lease(&cube, deep(part), Privilege::ReadWrite);
        let mut u = ReadWrite::<i64, 3>::bind(&mut writing).unwrap();
        if !part.is_empty() {
            for i in part.lo(0)..part.hi(0) {
                u.row_at_mut([i, 6]).copy_from_slice(&row(i));
            }
            for i in part.lo(0)..part.hi(0) {
                let (changed, read) = u.two_rows([i, 5], [part.hi(0) - 1, 6]);
                changed.copy_from_slice(read);
            }
            for [i, _, j] in deep(part).points() {
                prop_assert_eq!(u.get([i, 6, j]), model[&[i, j]]);
                prop_assert_eq!(u.get([i, 5, j]), model[&[part.hi(0) - 1, j]]);
                prop_assert_eq!(u.row_at([i, 6]), &row(i)[..]);
            }
        }
        cube.release(writing).unwrap();
    }
}

#[test]
fn rows_outside_and_one_row_twice_are_refused() {
    let whole = Rect::new([2, 0], [4, 3]);
    let instance = instance(whole, &numbered(whole));
    let refused = |body: &dyn Fn(&mut ReadWrite<i64, 2>)| {
        let mut lease = lease(&instance, Rect::new([3, 0], [4, 3]), Privilege::ReadWrite);
        let mut u = ReadWrite::<i64, 2>::bind(&mut lease).unwrap();
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&mut u))).unwrap_err();
        instance.release(lease).unwrap();
        *panic.downcast::<String>().unwrap()
    };
    assert_eq!(refused(&|u| _ = u.row_at(2)), "point 2 lies outside the leased rectangle [3, 4) x [0, 3)");
    assert!(refused(&|u| _ = u.row_at_mut(4)).starts_with("point 4 lies outside"));
    assert!(refused(&|u| _ = u.two_rows(3, 2)).starts_with("point (3, 2) lies outside"));
    assert!(refused(&|u| _ = u.two_rows(3, 3)).starts_with("two different rows are needed, and 3 is given twice"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The room around the elements: the elements are in it, and what is written around them changes none.
    #[test]
    fn padding_is_beside_the_elements((whole, part) in nested(), padding in 0..4_usize, width in prop::array::uniform2(0..4_usize)) {
        let model = numbered(whole);
        let instance = Instance::new(whole, U.info().with_padding(padding), MemoryId(0)).unwrap();
        instance.write_bytes(whole, bytes(&model, whole).as_bytes()).unwrap();
        let mut all = lease(&instance, whole, Privilege::ReadWrite);
        let mut u = ReadWrite::<i64, 2>::bind(&mut all).unwrap();
        let rect = whole.grow(width).unwrap();
        match u.padded(width) {
            Some(u) if whole.is_empty() => prop_assert!(u.is_empty()),
            None => prop_assert!(!whole.is_empty() && width.iter().any(|width| *width > padding)),
            Some(mut u) => {
                prop_assert!(width.iter().all(|width| *width <= padding));
                prop_assert_eq!(u.rect(), rect);
                for point in rect.points() {
                    if let Some(value) = model.get(&point) {
                        prop_assert_eq!(u.get(point), *value);
                    }
                    u.set(point, u.get(point).wrapping_neg());
                    if !whole.contains(point) {
                        u.set(point, i64::MIN);
                    }
                }
                prop_assert!(u.padded([1, 0]).is_none());
            }
        }
        let sign = if u.padded(width).is_some() { -1 } else { 1 };
        prop_assert!(whole.points().all(|point| u.get(point) == sign * model[&point]));
        instance.release(all).unwrap();

        // A lease of less has no room around it: the cells there may be others'.
        let mut some = lease(&instance, part, Privilege::ReadWrite);
        let room = ReadWrite::<i64, 2>::bind(&mut some).unwrap().padded([1, 1]).is_some();
        prop_assert_eq!(room, part.is_empty() || (part == whole && padding > 0));
        instance.release(some).unwrap();
        let expected: Model = model.iter().map(|(point, value)| (*point, sign * value)).collect();
        prop_assert_eq!(instance.read_bytes(whole).unwrap(), bytes(&expected, whole));

        let values = bytes(&model, whole);
        let adopted = Instance::from_buffer(whole, U.info().with_padding(padding), MemoryId(0), values.clone()).unwrap();
        prop_assert_eq!(adopted.read_bytes(whole).unwrap(), values);
    }
}

/// Views of `ndarray` have the elements of the points, also where other elements lie between the rows.
#[cfg(feature = "ndarray")]
mod views {
    use super::*;
    use ndarray::Axis;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn views_are_the_block_in_place((whole, part) in nested()) {
            let mut model = numbered(whole);
            let instance = instance(whole, &model);
            let mut lease = lease(&instance, part, Privilege::ReadWrite);
            {
                let mut u = ReadWrite::<i64, 2>::bind(&mut lease).unwrap();
                let shape = if part.is_empty() { (0, 0) } else { (part.extent(0), part.extent(1)) };
                prop_assert_eq!(u.view().dim(), shape);
                for ((i, j), value) in u.view().indexed_iter() {
                    prop_assert_eq!(*value, model[&[part.lo(0) + i as i64, part.lo(1) + j as i64]]);
                }
                let mut view = u.view_mut();
                for mut column in view.axis_iter_mut(Axis(1)).step_by(2) {
                    column += 7;
                }
            }
            instance.release(lease).unwrap();
            for [i, j] in part.points() {
                if (j - part.lo(1)) % 2 == 0 {
                    *model.get_mut(&[i, j]).unwrap() += 7;
                }
            }
            let mut all = super::lease(&instance, whole, Privilege::Read);
            let u = Read::<i64, 2>::bind(&mut all).unwrap();
            prop_assert!(whole.points().all(|at| u.get(at) == model[&at]));
            let of_rows = u.view().rows().into_iter().map(|row| row.to_vec()).collect::<Vec<_>>();
            prop_assert_eq!(of_rows, u.rows().map(<[i64]>::to_vec).collect::<Vec<_>>());
            instance.release(all).unwrap();
        }
    }

    #[test]
    fn lines_cubes_and_elements_to_be_set_have_views() {
        let line = Instance::new(Rect::line(-2, 5), U.info(), MemoryId(0)).unwrap();
        let mut writing = lease(&line, Rect::line(0, 4), Privilege::WriteDiscard);
        Write::<i64>::bind(&mut writing)
            .unwrap()
            .view_mut()
            .indexed_iter_mut()
            .for_each(|(i, slot)| slot.set(i as i64));
        line.release(writing).unwrap();
        let mut reading = lease(&line, Rect::line(-2, 5), Privilege::Read);
        assert_eq!(Read::<i64>::bind(&mut reading).unwrap().view().to_vec(), [0, 0, 0, 1, 2, 3, 0]);
        line.release(reading).unwrap();

        let whole = Rect::new([0, 0, 0], [3, 4, 5]);
        let cube = Instance::new(whole, U.info(), MemoryId(0)).unwrap();
        let mut writing = lease(&cube, Rect::new([1, 1, 1], [3, 3, 4]), Privilege::ReadWrite);
        let mut u = ReadWrite::<i64, 3>::bind(&mut writing).unwrap();
        for ((i, j, k), u) in u.view_mut().indexed_iter_mut() {
            *u = (100 * i + 10 * j + k) as i64;
        }
        assert_eq!((u.get([2, 1, 3]), u.view().shape()), (102, &[2, 2, 3][..]));
        cube.release(writing).unwrap();
    }
}
