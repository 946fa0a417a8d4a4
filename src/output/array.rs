//! An array of Zarr, version 3: its type, its shape and the grid of its chunks.
//!
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>

use super::boxes::BoxOf;
use crate::regions::{FieldInfo, Rect};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The file of a group's or an array's metadata.
pub const METADATA: &str = "zarr.json";

/// The most bytes of a chunk that we write.
const MOST: usize = 1 << 29;

/// The order of bytes of this machine, as Zarr names it.
const ENDIAN: &str = if cfg!(target_endian = "little") { "little" } else { "big" };

/// The type of a field's elements as files know it: numbers, and the shape of those that make up an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataType {
    number: &'static Number,
    components: Vec<usize>,
    /// The bytes of an element.
    pub size: usize,
}

/// A type of numbers: the end of its name in Rust, its name in Zarr, its name in NumPy without the byte order, and its bytes.
#[derive(Debug, PartialEq, Eq)]
struct Number(&'static str, &'static str, &'static str, usize);

const BYTE: Number = Number("u8", "uint8", "u1", 1);

const NUMBERS: [Number; 15] = [
    BYTE,
    Number("i8", "int8", "i1", 1),
    Number("u16", "uint16", "u2", 2),
    Number("i16", "int16", "i2", 2),
    Number("u32", "uint32", "u4", 4),
    Number("i32", "int32", "i4", 4),
    Number("u64", "uint64", "u8", 8),
    Number("i64", "int64", "i8", 8),
    Number("usize", "uint64", "u8", 8),
    Number("isize", "int64", "i8", 8),
    Number("half::binary16::f16", "float16", "f2", 2),
    Number("f32", "float32", "f4", 4),
    Number("f64", "float64", "f8", 8),
    Number("num_complex::Complex<f32>", "complex64", "c8", 8),
    Number("num_complex::Complex<f64>", "complex128", "c16", 16),
];

impl DataType {
    /// The type of a field. An element that is not made of numbers of one type is an array of bytes.
    pub fn of(field: &FieldInfo) -> Self {
        let (mut name, mut components) = (field.type_name, Vec::new());
        // The type `[T; N]`.
        while let Some((inner, length)) =
            name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).and_then(|name| name.rsplit_once("; "))
        {
            components.extend(length.parse::<usize>());
            name = inner;
        }
        let number = NUMBERS.iter().find(|number| number.0 == name);
        let bytes = number.map(|number| components.iter().product::<usize>() * number.3);
        match number.filter(|_| bytes == Some(field.size)) {
            Some(number) => Self { number, components, size: field.size },
            None => Self { number: &BYTE, components: vec![field.size], size: field.size },
        }
    }

    /// The name in NumPy.
    pub fn descr(&self) -> String {
        let order = match self.number.3 {
            1 => '|',
            _ if ENDIAN == "little" => '<',
            _ => '>',
        };
        format!("{order}{}", self.number.2)
    }

    /// The shape of an array of so many elements, with those within an element last.
    pub fn shape(&self, rect: &Rect) -> Vec<usize> {
        (0..rect.dim()).map(|d| rect.extent(d)).chain(self.components.iter().copied()).collect()
    }

    fn zero(&self) -> Value {
        match self.number.1 {
            name if name.starts_with("complex") => json!([0.0, 0.0]),
            name if name.starts_with("float") => json!(0.0),
            _ => json!(0),
        }
    }
}

/// How the values of a field of a region are cut into chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// All points.
    rect: Rect,
    /// The points of a chunk in each dimension.
    chunk: Vec<usize>,
    separator: char,
    /// What stands before the numbers in a chunk's name.
    prefix: &'static str,
    /// The zeros after the numbers that stand for an element's numbers.
    components: usize,
    /// A checksum follows the values.
    has_checksum: bool,
    /// Every chunk must have a file.
    pub is_complete: bool,
}

impl Grid {
    /// One chunk for a block, where the instances that hold the values are blocks of about the same size.
    pub fn of(rect: Rect, data: &DataType, instances: &[Rect]) -> Self {
        let largest = |d| instances.iter().map(|instance: &Rect| instance.extent(d)).max();
        let mut chunk: Vec<usize> = (0..rect.dim()).map(|d| largest(d).unwrap_or(rect.extent(d)).max(1)).collect();
        while chunk.iter().fold(data.size, |bytes, extent| bytes.saturating_mul(*extent)) > MOST {
            let Some(longest) = chunk.iter_mut().rev().max() else { break };
            if *longest == 1 {
                break;
            }
            *longest = longest.div_ceil(2);
        }
        // A few instances in a large tree that nobody has written otherwise.
        let count = |chunk: &[usize], d: usize| rect.extent(d).div_ceil(chunk[d]);
        while !rect.is_empty() {
            let all: usize = (0..rect.dim()).map(|d| count(&chunk, d)).product();
            let most = (0..rect.dim()).max_by_key(|d| count(&chunk, *d)).unwrap_or(0);
            let bytes = chunk.iter().fold(2 * data.size, |bytes, extent| bytes.saturating_mul(*extent));
            if all <= 4 * instances.len().max(1) || bytes > MOST {
                break;
            }
            chunk[most] *= 2;
        }
        let components = data.components.len();
        Self { rect, chunk, separator: '/', prefix: "c", components, has_checksum: true, is_complete: true }
    }

    /// The chunks: the name of each, its points, and those of them that are in the array. A chunk at the end may reach beyond it.
    fn chunks(&self) -> impl Iterator<Item = (String, Rect, Rect)> + '_ {
        let dim = self.rect.dim();
        let counts: Vec<usize> = (0..dim).map(|d| self.rect.extent(d).div_ceil(self.chunk[d])).collect();
        let all = if self.rect.is_empty() { 0 } else { counts.iter().product() };
        (0..all).map(move |mut number: usize| {
            let mut at = vec![0; dim];
            for d in (0..dim).rev() {
                (at[d], number) = (number % counts[d], number / counts[d]);
            }
            let lo = |d: usize| self.rect.lo(d).saturating_add((at[d] * self.chunk[d]) as i64);
            let hi = |d: usize| lo(d).saturating_add(self.chunk[d] as i64);
            let points = match dim {
                1 => Rect::line(lo(0), hi(0)),
                2 => Rect::new([lo(0), lo(1)], [hi(0), hi(1)]),
                _ => Rect::new([0, 1, 2].map(lo), [0, 1, 2].map(hi)),
            };
            at.resize(dim + self.components, 0);
            let numbers: Vec<String> = at.iter().map(usize::to_string).collect();
            let parts = (!self.prefix.is_empty()).then(|| self.prefix.to_owned()).into_iter().chain(numbers);
            let name = parts.collect::<Vec<_>>().join(&self.separator.to_string());
            (name, points, points.intersect(&self.rect))
        })
    }

    /// The files of the chunks in directory `dir`, with elements of `size` bytes.
    pub fn files(&self, dir: &Path, size: usize) -> Vec<(PathBuf, BoxOf, Rect)> {
        let of = |rect| BoxOf { rect, start: 0, size, has_checksum: self.has_checksum };
        self.chunks().map(|(name, rect, part)| (dir.join(name), of(rect), part)).collect()
    }

    /// What the metadata of our arrays has besides Zarr's.
    pub fn about(field: &FieldInfo, rect: &Rect) -> Value {
        let origin: Vec<i64> = (0..rect.dim()).map(|d| rect.lo(d)).collect();
        json!({"origin": origin, "element": field.type_name, "complete": true})
    }

    /// The metadata of the array.
    pub fn metadata(&self, field: &FieldInfo) -> Value {
        let data = DataType::of(field);
        let chunk = self.chunk.iter().chain(&data.components);
        let axes = (0..self.rect.dim()).map(|d| format!("x{d}"));
        let names = axes.chain((0..data.components.len()).map(|d| format!("{}_{d}", field.name)));
        json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": data.shape(&self.rect),
            "data_type": data.number.1,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk.collect::<Vec<_>>()}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": data.zero(),
            "codecs": [{"name": "bytes", "configuration": {"endian": ENDIAN}}, {"name": "crc32c"}],
            "dimension_names": names.collect::<Vec<_>>(),
            "attributes": {"maniple": Self::about(field, &self.rect)},
        })
    }

    /// Reads the metadata of an array for a field of a region.
    ///
    /// # Errors
    /// What was expected, and what came.
    pub fn read(metadata: &Value, field: &FieldInfo, rect: Rect) -> Result<Self, String> {
        let data = DataType::of(field);
        let expect = |what: &str, expected: Value, came: &Value| match *came == expected {
            true => Ok(()),
            false => Err(format!("expected {what} {expected}, found {came}")),
        };
        expect("zarr_format", json!(3), &metadata["zarr_format"])?;
        expect("an array, node_type", json!("array"), &metadata["node_type"])?;
        expect(&format!("for elements `{}` data_type", field.type_name), json!(data.number.1), &metadata["data_type"])?;
        expect("shape", json!(data.shape(&rect)), &metadata["shape"])?;
        expect("chunk_grid", json!("regular"), &metadata["chunk_grid"]["name"])?;
        let listed = &metadata["chunk_grid"]["configuration"]["chunk_shape"];
        let extents: Option<Vec<usize>> =
            listed.as_array().and_then(|all| all.iter().map(|n| Some(n.as_u64()? as usize)).collect());
        let dim = rect.dim();
        let chunk = extents.filter(|all| all.len() == dim + data.components.len() && all[dim..] == data.components[..]);
        let fits = |chunk: &Vec<usize>| {
            let bytes = chunk.iter().try_fold(data.size, |bytes, extent| bytes.checked_mul(*extent));
            bytes.is_some_and(|bytes| bytes > 0 && isize::try_from(bytes).is_ok())
        };
        let Some(chunk) = chunk.map(|all| all[..dim].to_vec()).filter(fits) else {
            return Err(format!("expected a chunk_shape of {dim} lengths and {:?}, found {listed}", data.components));
        };
        let encoding = &metadata["chunk_key_encoding"];
        let (prefix, usual) = match encoding["name"].as_str() {
            Some("default") => ("c", '/'),
            Some("v2") => ("", '.'),
            _ => return Err(format!("expected chunk_key_encoding \"default\" or \"v2\", found {encoding}")),
        };
        let separator = match encoding["configuration"]["separator"].as_str() {
            Some("/") => '/',
            Some(".") => '.',
            _ => usual,
        };
        let codecs = metadata["codecs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: Vec<&str> = codecs.iter().map(|codec| codec["name"].as_str().unwrap_or("?")).collect();
        if !matches!(names[..], ["bytes"] | ["bytes", "crc32c"]) {
            let advice = "write it without compression, in zarr-python with compressors=None";
            return Err(format!("expected the codecs bytes and crc32c, found {}; {advice}", names.join(", ")));
        }
        if data.number.3 > 1 {
            expect("byte order", json!(ENDIAN), &codecs[0]["configuration"]["endian"])?;
        }
        // What is missing is zero, as in a new region, or else it is needed.
        let is_zero = [data.zero(), json!(0)].contains(&metadata["fill_value"]);
        let is_complete = !is_zero || metadata["attributes"]["maniple"]["complete"] == json!(true);
        let components = data.components.len();
        Ok(Self { rect, chunk, separator, prefix, components, has_checksum: names.len() == 2, is_complete })
    }
}

/// The parts of a file of NumPy's that tasks read or write, of which the values begin after `start` bytes.
pub fn parts_of_npy(path: &Path, start: u64, grid: &Grid, size: usize) -> Vec<(PathBuf, BoxOf, Rect)> {
    let of = BoxOf { rect: grid.rect, start, size, has_checksum: false };
    grid.chunks().map(|(_, _, part)| (path.to_owned(), of.clone(), part)).collect()
}

/// The metadata of a group, with that of its arrays if it has any.
pub fn group(arrays: &[(String, Value)], attributes: Value) -> Value {
    let mut group = json!({"zarr_format": 3, "node_type": "group", "attributes": {"maniple": attributes}});
    if !arrays.is_empty() {
        let all: serde_json::Map<String, Value> = arrays.iter().cloned().collect();
        group["consolidated_metadata"] = json!({"kind": "inline", "must_understand": false, "metadata": all});
    }
    group
}

/// The name of the directory of a field or a tree. Names of nodes have no `/`, do not begin with `__`, and are not those of files.
pub fn node_name(name: &str) -> String {
    let clean: String = name.chars().map(|c| if c == '/' || c == '\\' || c.is_control() { '_' } else { c }).collect();
    match clean.is_empty() || clean.starts_with('.') || clean.starts_with("__") || clean == METADATA {
        true => format!("of_{clean}"),
        false => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::Field;

    #[test]
    fn elements_are_numbers_or_bytes() {
        #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(C)]
        struct Particle {
            x: f64,
            id: u64,
        }
        let of = |field: FieldInfo| {
            let data = DataType::of(&field);
            (data.number.1, data.descr(), data.components.clone(), data.size)
        };
        assert_eq!(of(Field::<f32>::new(0, "a").info()), ("float32", "<f4".into(), vec![], 4));
        assert_eq!(of(Field::<u8>::new(0, "a").info()), ("uint8", "|u1".into(), vec![], 1));
        assert_eq!(of(Field::<[[i16; 3]; 2]>::new(0, "a").info()), ("int16", "<i2".into(), vec![2, 3], 12));
        assert_eq!(of(Field::<[[u8; 1]; 7]>::new(0, "a").info()), ("uint8", "|u1".into(), vec![7, 1], 7));
        assert_eq!(of(Field::<Particle>::new(0, "a").info()), ("uint8", "|u1".into(), vec![16], 16));
        assert_eq!(of(Field::<[Particle; 2]>::new(0, "a").info()), ("uint8", "|u1".into(), vec![32], 32));
        assert_eq!(of(Field::<u128>::new(0, "a").info()), ("uint8", "|u1".into(), vec![16], 16));
    }

    #[test]
    fn chunks_cover_each_point_once() {
        let data = DataType::of(&Field::<f64>::new(0, "a").info());
        let rect = Rect::new([-3, 5], [4, 16]);
        let grid =
            Grid::of(rect, &data, &[Rect::new([-3, 5], [0, 9]), Rect::new([0, 5], [2, 10]), Rect::new([2, 5], [4, 6])]);
        let chunks: Vec<_> = grid.chunks().collect();
        assert_eq!(chunks.len(), 9);
        assert_eq!(chunks[5], ("c/1/2".into(), Rect::new([0, 15], [3, 20]), Rect::new([0, 15], [3, 16])));
        assert_eq!(chunks.iter().map(|(_, _, part)| part.volume()).sum::<usize>(), rect.volume());
        assert_eq!(Grid::of(Rect::line(2, 2), &data, &[]).chunks().count(), 0);
    }

    /// One cell that somebody has written makes no chunk for each cell.
    #[test]
    fn small_instances_share_chunks() {
        let data = DataType::of(&Field::<f64>::new(0, "a").info());
        let grid = Grid::of(Rect::new([0, 0], [4096, 4096]), &data, &[Rect::new([7, 7], [8, 8])]);
        assert_eq!(grid.chunks().count(), 4);
    }

    #[test]
    fn large_blocks_are_several_chunks() {
        let data = DataType::of(&Field::<f64>::new(0, "a").info());
        let grid = Grid::of(Rect::new([0, 0], [20_000, 10_000]), &data, &[]);
        assert_eq!(grid.chunk, [5000, 10_000]);
    }
}
