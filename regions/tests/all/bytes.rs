//! Elements of every size through atomic words, and buffers on their way.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytemuck::{Pod, Zeroable};
use maniple_regions::{
    Buffer, Field, MemoryId, Privilege, ReadShared, ReadWriteShared, Rect, SharedInstance, WriteShared,
};

/// Elements of every word width: 3, 6, 4, 12, 8 and 24 bytes.
#[test]
fn shared_elements_of_any_size_come_back() {
    #[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
    #[repr(C)]
    struct Particle {
        x: f64,
        y: f64,
        kind: u32,
        age: u32,
    }
    fn check<T: Pod + Send + Sync + PartialEq + std::fmt::Debug>(values: &[T]) {
        let field: Field<T> = Field::new(1, "v");
        let rect = Rect::line(5, 5 + values.len() as i64);
        let instance = SharedInstance::new(rect, field.info(), MemoryId(0)).unwrap();
        let mut lease = instance.lease(rect, Privilege::ReadWrite).unwrap();
        let mut v = ReadWriteShared::<T>::bind(&mut lease).unwrap();
        v.copy_from(values);
        for (at, value) in values.iter().enumerate() {
            assert_eq!(v.get([5 + at as i64]), *value);
        }
        v.set([5], values[1]);
        let mut copied = vec![T::zeroed(); values.len()];
        v.copy_to(&mut copied);
        assert_eq!(copied[0], values[1]);
        assert_eq!(copied[1..], values[1..]);
        assert_eq!(instance.read_bytes(rect).unwrap().as_slice::<T>().unwrap(), copied);
    }
    check(&[[1_u8, 2, 3], [4, 5, 6], [7, 8, 9]]);
    check(&[[1_u16, 2, 3], [4, 5, 6]]);
    check(&[1.5_f32, -2.5, 3.5]);
    check(&[[1_u32, 2, 3], [4, 5, 6], [7, 8, 9]]);
    check(&[[1.0_f32, 2.0], [3.0, 4.0]]);
    check(&[u64::MAX, 1, 2]);
    check(&[Particle { x: 1.0, y: 2.0, kind: 3, age: 4 }, Particle { x: 5.0, y: 6.0, kind: 7, age: 8 }]);
}

/// Values of one word are never torn, whoever writes.
#[test]
fn shared_words_are_whole() {
    let field: Field<u64> = Field::new(0, "w");
    let rect = Rect::line(0, 64);
    let instance = SharedInstance::new(rect, field.info(), MemoryId(0)).unwrap();
    let seen_enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut lease = instance.lease(rect, Privilege::WriteDiscard).unwrap();
            let mut round = 0_u64;
            while !seen_enough.load(Relaxed) {
                round += 1;
                WriteShared::<u64>::bind(&mut lease).unwrap().fill((round & 0xff) * 0x0101_0101_0101_0101);
            }
        });
        let mut lease = instance.lease(rect, Privilege::Read).unwrap();
        let (mut values, mut changes, mut last, mut torn) = ([0_u64; 64], 0, 0, None);
        while changes < 5_000 && torn.is_none() {
            ReadShared::<u64>::bind(&mut lease).unwrap().copy_to(&mut values);
            torn = values.into_iter().find(|word| *word != (word & 0xff) * 0x0101_0101_0101_0101);
            changes += u32::from(values[0] != last);
            last = values[0];
        }
        seen_enough.store(true, Relaxed);
        assert_eq!(torn, None);
    });
}

#[test]
fn buffers_travel_as_bytes() {
    let mut buffer = Buffer::zeroed(1 << 20);
    buffer.as_mut_slice::<f64>().unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = i as f64);
    let sent = postcard::to_stdvec(&buffer).unwrap();
    assert_eq!(sent.len(), (1 << 20) + 3);
    let came: Buffer = postcard::from_bytes(&sent).unwrap();
    assert_eq!(came, buffer);
    assert_eq!(came.as_bytes().as_ptr().align_offset(64), 0);
    assert_eq!(came.clone(), came);
    let text = serde_json::to_string(&Buffer::from_bytes(&[1, 2, 255])).unwrap();
    assert_eq!(serde_json::from_str::<Buffer>(&text).unwrap().as_bytes(), [1, 2, 255]);
    assert!(serde_json::from_str::<Buffer>("[256]").is_err());
    assert!(Buffer::zeroed(0).is_empty());
    assert_eq!(
        Buffer::zeroed(12).as_slice::<f64>().unwrap_err().to_string(),
        "expected a multiple of 8 bytes to read them as f64, got 12"
    );
    assert!(Buffer::zeroed(12).as_mut_slice::<f64>().is_err());
    assert_eq!(Buffer::from_slice(&[1_u32, 2]).len(), 8);
}
