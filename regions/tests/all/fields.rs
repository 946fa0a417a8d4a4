//! Fields, field spaces, and errors that travel.

use maniple_regions::{Field, FieldId, FieldSpace, Instance, MemoryId, Privilege, Rect, Region, RegionError, TreeId};
use std::collections::HashSet;

const U: Field<f64> = Field::new(0, "u");
const V: Field<[i32; 3]> = Field::new(7, "v");

#[test]
fn a_field_describes_itself() {
    let v = V.info();
    assert_eq!((v.id, v.name, v.type_name, v.size, v.align), (FieldId(7), "v", "[i32; 3]", 12, 4));
    assert!(v.holds::<[i32; 3]>() && !v.holds::<[u32; 3]>());
}

#[test]
fn a_space_knows_its_fields() {
    let space = FieldSpace::new(&[V.info(), U.info()]).unwrap();
    assert_eq!(space.fields().iter().map(|field| field.name).collect::<Vec<_>>(), ["u", "v"]);
    assert_eq!(space.get(FieldId(7)), Some(&V.info()));
    assert_eq!(space.get(FieldId(1)), None);
    assert_eq!(space.check(&U.info()), Ok(()));
    assert_eq!(
        space.check(&Field::<f32>::new(0, "u").info()).unwrap_err().to_string(),
        "field `u` holds f64, but was used as f32: use the field's own element type"
    );
    assert_eq!(
        space.check(&Field::<f64>::new(3, "w").info()).unwrap_err().to_string(),
        "expected one of the fields (0 `u`, 7 `v`), got field 3 `w`: add it to the field space or name another"
    );
    assert!(matches!(space.check(&Field::<f64>::new(0, "w").info()), Err(RegionError::UnknownField { .. })));
    assert_eq!(FieldSpace::new(&[]).unwrap().fields(), []);
}

#[test]
fn numbers_and_names_are_unique() {
    for clash in [Field::<f32>::new(0, "other").info(), Field::<f32>::new(5, "u").info(), U.info()] {
        let error = FieldSpace::new(&[U.info(), V.info(), clash]).unwrap_err();
        assert!(matches!(error, RegionError::DuplicateField { .. }), "{error}");
    }
}

#[test]
fn handles_and_errors_travel() {
    let region = Region::new(TreeId(3), Rect::new([0, 1], [2, 3]));
    assert_eq!(postcard::from_bytes::<Region>(&postcard::to_stdvec(&region).unwrap()).unwrap(), region);
    let instance = Instance::new(Rect::line(0, 4), U.info(), MemoryId(2)).unwrap();
    let _out = instance.lease(Rect::line(0, 4), Privilege::ReadWrite, maniple_regions::Coherence::Exclusive).unwrap();
    let error = instance.read_bytes(Rect::line(1, 2)).unwrap_err();
    assert_eq!(postcard::from_bytes::<RegionError>(&postcard::to_stdvec(&error).unwrap()).unwrap(), error);
}

#[test]
fn regions_of_different_trees_share_nothing() {
    let here = Region::new(TreeId(0), Rect::line(0, 4));
    let there = Region::new(TreeId(1), Rect::line(0, 4));
    assert!(here.overlaps(&here) && !here.overlaps(&there));
    assert!(here.contains(&here) && !here.contains(&there));
}

/// What is known of fields is the same exactly where number, name and element type are.
#[test]
fn fields_are_known_by_number_name_and_type() {
    let names = ["", "u", "v", "uv", "vu", "u ", "a longer name", "a longer namf", "b longer name", "\u{e9}"];
    let fields: Vec<_> = names.into_iter().flat_map(|name| (0..3).map(move |id| (id, name))).collect();
    for &(id, name) in &fields {
        let field = Field::<u64>::new(id, name).info();
        assert_ne!(field, Field::<i64>::new(id, name).info());
        assert!(!field.is_of_same_field(&Field::<i64>::new(id, name).info()));
        for &other in &fields {
            let info = Field::<u64>::new(other.0, other.1).info();
            assert_eq!(field == info, (id, name) == other, "{other:?}");
            assert_eq!(field.is_of_same_field(&info), (id, name) == other, "{other:?}");
        }
    }
    let letters = || 'a'..='z';
    let names = letters().flat_map(|a| letters().map(move |b| &*String::from_iter([a, b]).leak()));
    let infos: Vec<_> = names.map(|name| Field::<u64>::new(0, name).info()).collect();
    assert_eq!(infos.iter().collect::<HashSet<_>>().len(), 26 * 26);
    for (i, one) in infos.iter().enumerate() {
        assert!(infos[..i].iter().all(|other| !one.is_of_same_field(other)), "{}", one.name);
    }
}
