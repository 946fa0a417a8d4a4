//! Files with arrays, as NumPy writes them.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of this test run.
pub fn path(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("arrays-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

/// A file with an array of this type, order (Fortran's, or C's) and shape.
pub fn npy(name: &str, (descr, fortran, shape): (&str, bool, &str), data: &[u8]) -> PathBuf {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    let header = format!("{header:117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    let path = path(name);
    fs::write(&path, bytes).expect("a file");
    path
}

/// The floats of eight bytes in a file.
pub fn values(path: &Path) -> Vec<f64> {
    let bytes = fs::read(path).expect("a file");
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[header..].as_chunks().0.iter().map(|x| f64::from_le_bytes(*x)).collect()
}
