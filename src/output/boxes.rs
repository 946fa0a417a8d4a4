//! Files that have the values of a box of points, in row-major order, of which a task has a part.

use crate::regions::Rect;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

const BUFFER: usize = 1 << 20;

/// Where a task finds or puts the values of its part.
#[derive(Debug, Clone)]
pub struct BoxOf {
    /// The points of the file.
    pub rect: Rect,
    /// The bytes before the first.
    pub start: u64,
    /// The bytes of an element.
    pub size: usize,
    /// A checksum of all values, CRC-32C, follows them.
    pub has_checksum: bool,
}

/// The values of a part on their way to a file or from one, one after the other.
struct Place<'a> {
    of: &'a BoxOf,
    /// The runs of the part that are to come: the place of each in the box and its length, in bytes.
    runs: Box<dyn Iterator<Item = (u64, u64)>>,
    /// The bytes of the present run that are to come.
    left: u64,
    /// The bytes of the box that are done.
    at: u64,
    checksum: u32,
}

impl<'a> Place<'a> {
    fn new(of: &'a BoxOf, part: &Rect) -> Self {
        let size = of.size;
        let runs = of.rect.runs(part).map(move |(at, len)| ((at * size) as u64, (len * size) as u64));
        Self { of, runs: Box::new(runs), left: 0, at: 0, checksum: 0 }
    }

    /// All bytes of the box.
    fn end(&self) -> u64 {
        (self.of.rect.volume() * self.of.size) as u64
    }

    /// The number of bytes between here and the next run.
    fn gap(&mut self) -> u64 {
        if self.left > 0 {
            return 0;
        }
        let Some((at, len)) = self.runs.next() else { return 0 };
        self.left = len;
        at - self.at
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        if self.of.has_checksum {
            self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        }
    }

    fn pass_part(&mut self, bytes: &[u8]) {
        self.left -= bytes.len() as u64;
        self.pass(bytes);
    }
}

/// Writes the values of a part. If there is a checksum, this writes the whole file, and all else is zero. If not, others write the rest.
pub struct BoxWriter<'a> {
    place: Place<'a>,
    file: BufWriter<File>,
}

impl<'a> BoxWriter<'a> {
    pub fn new(mut file: File, of: &'a BoxOf, part: &Rect) -> io::Result<Self> {
        file.seek(SeekFrom::Start(of.start))?;
        Ok(Self { place: Place::new(of, part), file: BufWriter::with_capacity(BUFFER, file) })
    }

    fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        if !self.place.of.has_checksum && bytes > 0 {
            self.place.at += bytes;
            return self.file.seek(SeekFrom::Start(self.place.of.start + self.place.at)).map(drop);
        }
        const ZEROS: [u8; 4096] = [0; 4096];
        while bytes > 0 {
            let some = &ZEROS[..ZEROS.len().min(bytes as usize)];
            self.file.write_all(some)?;
            self.place.pass(some);
            bytes -= some.len() as u64;
        }
        Ok(())
    }

    /// All values of the part are written.
    pub fn finish(mut self) -> io::Result<File> {
        if self.place.of.has_checksum {
            self.skip(self.place.end() - self.place.at)?;
            self.file.write_all(&self.place.checksum.to_le_bytes())?;
        }
        self.file.into_inner().map_err(|e| e.into_error())
    }
}

impl Write for BoxWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gap = self.place.gap();
        self.skip(gap)?;
        let bytes = &bytes[..bytes.len().min(self.place.left as usize)];
        self.file.write_all(bytes)?;
        self.place.pass_part(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads the values of a part.
pub struct BoxReader<'a> {
    place: Place<'a>,
    file: BufReader<File>,
}

impl<'a> BoxReader<'a> {
    /// # Errors
    /// The file can't be read, or has another length.
    pub fn open(path: &Path, of: &'a BoxOf, part: &Rect) -> io::Result<Self> {
        let place = Place::new(of, part);
        let file = File::open(path)?;
        let expected = of.start + place.end() + if of.has_checksum { 4 } else { 0 };
        let found = file.metadata()?.len();
        if found != expected {
            return Err(io::Error::other(format!("expected {expected} bytes, found {found}; the file is damaged")));
        }
        let mut file = BufReader::with_capacity(BUFFER, file);
        file.seek(SeekFrom::Start(of.start))?;
        Ok(Self { place, file })
    }

    fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        if !self.place.of.has_checksum && bytes > 0 {
            self.place.at += bytes;
            return self.file.seek_relative(bytes as i64);
        }
        let mut some = [0; 4096];
        while bytes > 0 {
            let some = &mut some[..4096.min(bytes as usize)];
            self.file.read_exact(some)?;
            self.place.pass(some);
            bytes -= some.len() as u64;
        }
        Ok(())
    }

    /// All values of the part are read.
    ///
    /// # Errors
    /// The file can't be read, or has another checksum.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.place.of.has_checksum {
            return Ok(());
        }
        self.skip(self.place.end() - self.place.at)?;
        let mut expected = [0; 4];
        self.file.read_exact(&mut expected)?;
        match u32::from_le_bytes(expected) == self.place.checksum {
            true => Ok(()),
            false => Err(io::Error::other("the values do not have the file's checksum; the file is damaged")),
        }
    }
}

impl Read for BoxReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let gap = self.place.gap();
        self.skip(gap)?;
        let most = bytes.len().min(self.place.left as usize);
        let read = self.file.read(&mut bytes[..most])?;
        self.place.pass_part(&bytes[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn files() -> impl Strategy<Value = (Rect, Rect, usize, bool)> {
        let side = || (0i64..4, 1i64..5, 0i64..3);
        ([side(), side(), side()], 1usize..5, any::<bool>()).prop_map(|(sides, size, has_checksum)| {
            let part = Rect::new(sides.map(|s| s.0), sides.map(|s| s.0 + s.1));
            let more = if has_checksum { [0; 3] } else { sides.map(|s| s.2) };
            let lo = [0, 1, 2].map(|d| part.lo(d) - more[d]);
            let hi = [0, 1, 2].map(|d| part.hi(d) + sides[d].2);
            (Rect::new(lo, hi), part, size, has_checksum)
        })
    }

    proptest! {
        /// Each value is where its point says, and comes back.
        #[test]
        fn values_are_at_their_points((rect, part, size, has_checksum) in files()) {
            let of = BoxOf { rect, start: 10, size, has_checksum };
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("values");
            let all = rect.volume() * size;
            let mut before = vec![0xee; 10];
            before.resize(10 + if has_checksum { 0 } else { all }, 0xff);
            std::fs::write(&path, &before).expect("written");
            let mut state = 1u8;
            let mut byte = || { state = state.wrapping_mul(29).wrapping_add(7); state };
            let values: Vec<u8> = (0..part.volume() * size).map(|_| byte()).collect();
            let file = File::options().write(true).open(&path).expect("opened");
            let mut writer = BoxWriter::new(file, &of, &part).expect("began");
            values.chunks(7).for_each(|some| writer.write_all(some).expect("written"));
            writer.finish().expect("written");
            let mut read = vec![0; values.len()];
            let mut reader = BoxReader::open(&path, &of, &part).expect("opened");
            reader.read_exact(&mut read).expect("read");
            reader.finish().expect("undamaged");
            prop_assert_eq!(&read, &values);
            let found = std::fs::read(&path).expect("read");
            prop_assert_eq!(&found[..10], &before[..10]);
            let rest = if has_checksum { 0 } else { 0xff };
            for point in rect.points::<3>() {
                let at = 10 + rect.position(point).expect("within") * size;
                let expected = match part.position(point) {
                    Some(position) => values[position * size..][..size].to_vec(),
                    None => vec![rest; size],
                };
                prop_assert_eq!(&found[at..at + size], &expected[..]);
            }
            if has_checksum {
                let mut damaged = found.clone();
                let at = 10 + usize::from(state) % all;
                damaged[at] ^= 1;
                std::fs::write(&path, &damaged).expect("written");
                let mut reader = BoxReader::open(&path, &of, &part).expect("opened");
                reader.read_exact(&mut read).expect("read");
                prop_assert!(reader.finish().is_err());
            }
        }
    }
}
