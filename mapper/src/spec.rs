//! Mappers by name, as on the command line.

use crate::stock::{
    AnyMapper, CollectiveMapper, DefaultMapper, FirstChoiceMapper, LoggingMapper, NumaMapper, RandomMapper,
    RoundRobinMapper,
};
use crate::{ChoiceTable, Mapper, MapperSlot, TableError, files};
use serde::{Serialize, Serializer};
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// The text that says which mapper a program uses: a name and options, `NAME[,OPTION=VALUE]…`, or the path of a shared
/// library and its own options, `./libmine.so[,…]`.
///
/// | name | mapper | options |
/// |---|---|---|
/// | `default` | the defaults of every call ([`DefaultMapper`]) | none |
/// | `collective` | the founding paper's mapper ([`CollectiveMapper`]) | `table=FILE`, a [table](ChoiceTable) of algorithms as `maniple tune` writes it; built in if left out |
/// | `first` | always the first legal answer ([`FirstChoiceMapper`]) | none |
/// | `round-robin` | each processor in turn ([`RoundRobinMapper`]) | none |
/// | `numa` | by the host's NUMA nodes ([`NumaMapper`]) | none |
/// | `random` | drawn among the legal answers ([`RandomMapper`]) | `seed=N`, 0 if left out |
/// | `any` | leaf tasks run on whichever processor of their node is free first ([`AnyMapper`]) | `inner=SPEC`, which comes last, `collective` if left out |
/// | `logging` | writes another mapper's decisions down ([`LoggingMapper`]) | `file=PATH`, stderr if left out; `inner=SPEC`, which comes last, `collective` if left out |
///
/// `@FILE` stands for the first line of FILE. The line may change while a program runs: see [`MapperSpec::reload`].
///
/// The text before the first comma is the path of a library if it has a `/` or `.so.` in it, or ends in `.so` or
/// `.dylib`. So the path of a library has no comma. Libraries need a [`Loader`], which is `maniple_plugin::load`.
///
/// The mapper is made once. Clones of the specification share it.
///
/// In a run on several processes each has its own mapper. [`in_process`](Self::in_process) keeps their files apart: the
/// decisions of process 0 are in PATH, and the decisions of process 2 in `PATH.2`.
///
/// ```
/// use maniple_mapper::MapperSpec;
/// let spec: MapperSpec = "random,seed=7".parse().unwrap();
/// assert_eq!(spec.name(), "random,seed=7");
/// let unknown = "best".parse::<MapperSpec>().unwrap_err().to_string();
/// assert!(unknown.starts_with("unknown mapper `best`; expected one of default, collective"));
/// ```
#[derive(Clone)]
pub struct MapperSpec {
    text: String,
    kind: MapperKind,
    /// The number of this process in its program.
    process: u32,
    made: Arc<Mutex<Option<MapperSlot>>>,
}

#[derive(Debug, Clone)]
enum MapperKind {
    Default,
    Collective,
    Table(PathBuf),
    First,
    RoundRobin,
    Numa,
    Random { seed: u64 },
    Any(Box<MapperSpec>),
    Logging { file: Option<PathBuf>, inner: Box<MapperSpec> },
    Library { path: PathBuf, options: String },
    File(PathBuf),
}

/// Makes mappers by shared libraries. A function from the path and the options is a loader, such as
/// `maniple_plugin::load`. Its errors begin with the path.
pub trait Loader {
    /// Has the library make a mapper of the options.
    ///
    /// # Errors
    /// The library did not make a mapper, or refuses the options.
    fn load(&self, path: &Path, options: &str) -> Result<Arc<dyn Mapper>, Box<dyn Error + Send + Sync>>;
}

impl<F, E> Loader for F
where
    F: Fn(&Path, &str) -> Result<Arc<dyn Mapper>, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn load(&self, path: &Path, options: &str) -> Result<Arc<dyn Mapper>, Box<dyn Error + Send + Sync>> {
        self(path, options).map_err(E::into)
    }
}

/// The names of the stock mappers.
pub fn names() -> &'static [&'static str] {
    &["default", "collective", "first", "round-robin", "numa", "random", "any", "logging"]
}

/// Why there is no mapper.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// There is no mapper of that name.
    #[error("unknown mapper `{name}`; expected one of {}, the path of a shared library, or @FILE", names().join(", "))]
    Name {
        /// The name.
        name: String,
    },
    /// A table of algorithms is at fault.
    #[error("mapper collective: {0}")]
    Table(#[source] TableError),
    /// The mapper has no such option.
    #[error("mapper {mapper}: unknown option `{option}`; {}", match *.legal {
        "" => "it has none".to_string(),
        legal => format!("expected {legal}"),
    })]
    Option {
        /// The mapper.
        mapper: String,
        /// The option.
        option: String,
        /// The options it has.
        legal: &'static str,
    },
    /// An option is given twice.
    #[error("mapper {mapper}: option `{option}` is given twice")]
    Twice {
        /// The mapper.
        mapper: String,
        /// The option.
        option: String,
    },
    /// The option can't have this value.
    #[error("mapper {mapper}, option {option}: expected {expected}, found `{found}`")]
    Value {
        /// The mapper.
        mapper: String,
        /// The option.
        option: &'static str,
        /// The legal values.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// The file for decisions can't be written.
    #[error("mapper logging: {}: can't be written: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file of `@FILE` can't be read.
    #[error("mapper @{}: can't be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The first line of `@FILE` is no legal specification.
    #[error("mapper @{}: {source}", .path.display())]
    Within {
        /// The file.
        path: PathBuf,
        /// The error of that line.
        source: Box<SpecError>,
    },
    /// The first line of `@FILE` names another such file.
    #[error("mapper @{}: expected a name and options or the path of a library, found `{found}`", .path.display())]
    Nested {
        /// The file.
        path: PathBuf,
        /// The specification in it.
        found: String,
    },
    /// The library did not make a mapper.
    #[error("mapper {0}")]
    Library(#[source] Box<dyn Error + Send + Sync>),
}

/// The options of one mapper.
struct Options<'a> {
    mapper: &'a str,
    rest: Option<&'a str>,
    given: Vec<&'a str>,
    legal: &'static str,
}

impl<'a> Options<'a> {
    /// The next option with its value. The value of `inner` is all the rest of the text.
    fn next(&mut self) -> Result<Option<(&'a str, &'a str)>, SpecError> {
        let Some(rest) = self.rest.take() else { return Ok(None) };
        if let Some(all) = rest.strip_prefix("inner=") {
            return Ok(Some(("inner", all)));
        }
        let option = match rest.split_once(',') {
            Some((option, rest)) => {
                self.rest = Some(rest);
                option
            }
            None => rest,
        };
        let (name, value) = option.split_once('=').ok_or_else(|| self.unknown(option))?;
        if self.given.contains(&name) {
            return Err(SpecError::Twice { mapper: self.mapper.into(), option: name.into() });
        }
        self.given.push(name);
        Ok(Some((name, value)))
    }

    fn unknown(&self, option: &str) -> SpecError {
        SpecError::Option { mapper: self.mapper.into(), option: option.into(), legal: self.legal }
    }

    fn wrong(&self, option: &'static str, expected: &'static str, found: &str) -> SpecError {
        SpecError::Value { mapper: self.mapper.into(), option, expected, found: found.into() }
    }
}

impl MapperKind {
    fn parse(text: &str) -> Result<Self, SpecError> {
        if let Some(path) = text.strip_prefix('@') {
            return Ok(MapperKind::File(path.into()));
        }
        let (name, rest) = text.split_once(',').map_or((text, None), |(name, rest)| (name, Some(rest)));
        if name.contains('/') || name.ends_with(".so") || name.contains(".so.") || name.ends_with(".dylib") {
            return Ok(MapperKind::Library { path: name.into(), options: rest.unwrap_or_default().into() });
        }
        let mut options = Options { mapper: name, rest, given: Vec::new(), legal: "" };
        let plain = match name {
            "default" => MapperKind::Default,
            "collective" => {
                options.legal = "table=FILE";
                let mut table = None;
                while let Some((option, value)) = options.next()? {
                    match option {
                        "table" if value.is_empty() => return Err(options.wrong("table", "a path", value)),
                        "table" => table = Some(value.into()),
                        other => return Err(options.unknown(other)),
                    }
                }
                return Ok(table.map_or(MapperKind::Collective, MapperKind::Table));
            }
            "first" => MapperKind::First,
            "round-robin" => MapperKind::RoundRobin,
            "numa" => MapperKind::Numa,
            "random" => {
                options.legal = "seed=N";
                let mut seed = 0;
                while let Some((option, value)) = options.next()? {
                    match option {
                        "seed" => seed = value.parse().map_err(|_| options.wrong("seed", "a number", value))?,
                        other => return Err(options.unknown(other)),
                    }
                }
                return Ok(MapperKind::Random { seed });
            }
            "any" | "logging" => {
                let logs = name == "logging";
                options.legal = if logs { "file=PATH or, last, inner=MAPPER" } else { "inner=MAPPER" };
                // Each asks the one within.
                let within = text.matches("inner=").count();
                if within > 16 {
                    return Err(options.wrong("inner", "at most 16 nested mappers", &within.to_string()));
                }
                let (mut file, mut inner) = (None, "collective");
                while let Some((option, value)) = options.next()? {
                    match option {
                        "file" if !logs => return Err(options.unknown(option)),
                        "file" if value.is_empty() => return Err(options.wrong("file", "a path", value)),
                        "file" => file = Some(value.into()),
                        "inner" if value.starts_with('@') => {
                            return Err(options.wrong("inner", "a mapper that is not read from a file", value));
                        }
                        "inner" => inner = value,
                        other => return Err(options.unknown(other)),
                    }
                }
                let inner = Box::new(inner.parse()?);
                return Ok(if logs { MapperKind::Logging { file, inner } } else { MapperKind::Any(inner) });
            }
            _ => return Err(SpecError::Name { name: name.into() }),
        };
        rest.map_or(Ok(plain), |option| Err(options.unknown(option)))
    }

    /// The specification in the first line of a file. It may not name another such file.
    fn within(path: &Path) -> Result<Self, SpecError> {
        let line = first_line(path).map_err(|source| SpecError::Unreadable { path: path.to_owned(), source })?;
        match MapperKind::parse(line.trim()) {
            Ok(MapperKind::File(other)) => {
                Err(SpecError::Nested { path: path.to_owned(), found: format!("@{}", other.display()) })
            }
            Ok(kind) => Ok(kind),
            Err(source) => Err(SpecError::Within { path: path.to_owned(), source: Box::new(source) }),
        }
    }

    /// Makes the mapper of a process. A logging mapper empties its file if `anew`, or else writes at its end.
    fn make(&self, loader: &dyn Loader, process: u32, anew: bool) -> Result<Arc<dyn Mapper>, SpecError> {
        Ok(match self {
            MapperKind::Default => Arc::new(DefaultMapper),
            MapperKind::Collective => Arc::new(CollectiveMapper),
            MapperKind::Table(path) => {
                Arc::new(CollectiveMapper::with_table(ChoiceTable::read(path).map_err(SpecError::Table)?))
            }
            MapperKind::First => Arc::new(FirstChoiceMapper),
            MapperKind::RoundRobin => Arc::new(RoundRobinMapper::default()),
            MapperKind::Numa => Arc::new(NumaMapper::here()),
            MapperKind::Random { seed } => Arc::new(RandomMapper::new(*seed)),
            MapperKind::Any(inner) => Arc::new(AnyMapper::new(inner.clone().in_process(process).load(loader)?)),
            MapperKind::Logging { file: None, inner } => {
                let inner = inner.clone().in_process(process).load(loader)?;
                Arc::new(LoggingMapper::new(inner, std::io::stderr()))
            }
            MapperKind::Logging { file: Some(path), inner } => {
                let inner = inner.clone().in_process(process).load(loader)?;
                let path = of_process(path, process);
                let file = log(&path, anew).map_err(|source| SpecError::File { path, source })?;
                // Without a buffer, so that a line that can't be written fails the run at once.
                Arc::new(LoggingMapper::new(inner, file))
            }
            MapperKind::File(path) => {
                let within = |source| SpecError::Within { path: path.clone(), source: Box::new(source) };
                MapperKind::within(path)?.make(loader, process, anew).map_err(within)?
            }
            MapperKind::Library { path, options } => loader.load(path, options).map_err(SpecError::Library)?,
        })
    }
}

/// The file of a process: process 0 has the one that is named, and others write beside it.
fn of_process(path: &Path, process: u32) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    if process > 0 {
        path.push(format!(".{process}"));
    }
    path.into()
}

/// A file for decisions. Each mapper that has it open writes at its end.
fn log(path: &Path, anew: bool) -> io::Result<File> {
    let file = files::append(path)?;
    if anew {
        file.set_len(0)?;
    }
    Ok(file)
}

/// The first line of a regular file.
fn first_line(path: &Path) -> io::Result<String> {
    const LONGEST: u64 = 1 << 16;
    let mut line = String::new();
    let read = BufReader::new(files::open(path)?).take(LONGEST).read_line(&mut line)?;
    match read as u64 == LONGEST {
        true => Err(io::Error::other(format!("expected a first line of less than {LONGEST} bytes"))),
        false => Ok(line),
    }
}

impl MapperSpec {
    /// The same mapper for a process with this number in its program. Process 0 writes decisions to the file that is
    /// named. Any other one writes them to a file beside it, whose name ends in a point and its number. A mapper that
    /// has been made stays with the original.
    ///
    /// ```
    /// use maniple_mapper::MapperSpec;
    /// let spec: MapperSpec = "logging,file=decisions".parse().unwrap();
    /// assert_eq!(spec.clone().in_process(0).files().unwrap(), [("decisions".into(), true)]);
    /// assert_eq!(spec.in_process(2).files().unwrap(), [("decisions.2".into(), true)]);
    /// ```
    pub fn in_process(self, number: u32) -> Self {
        Self { process: number, made: Arc::default(), ..self }
    }

    /// The slot with the mapper. The first call makes the mapper and its files, and has the loader load its library.
    ///
    /// # Errors
    /// A file can't be read or written, or a library did not make a mapper. The next call tries again.
    pub fn slot(&self, loader: &dyn Loader) -> Result<MapperSlot, SpecError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = &*made {
            return Ok(slot.clone());
        }
        let slot = MapperSlot::new(self.kind.make(loader, self.process, true)?);
        *made = Some(slot.clone());
        Ok(slot)
    }

    /// The mapper that is in the [slot](Self::slot) now.
    ///
    /// # Errors
    /// The errors of [`Self::slot`].
    pub fn load(&self, loader: &dyn Loader) -> Result<Arc<dyn Mapper>, SpecError> {
        Ok(self.slot(loader)?.current().mapper.clone())
    }

    /// The path FILE of `@FILE`; `None` for other specifications.
    pub fn file(&self) -> Option<&Path> {
        match &self.kind {
            MapperKind::File(path) => Some(path),
            _ => None,
        }
    }

    /// Reads the file of `@FILE` again and replaces the mapper by the one it names now, also in running programs. Other
    /// specifications always mean the same mapper, and nothing happens.
    ///
    /// # Errors
    /// The errors of [`Self::slot`], and an illegal specification in the file. The old mapper stays then.
    pub fn reload(&self, loader: &dyn Loader) -> Result<(), SpecError> {
        let slot = self.slot(loader)?;
        if self.file().is_some() {
            slot.replace(self.kind.make(loader, self.process, false)?);
        }
        Ok(())
    }

    /// The files of this specification, each with whether the mapper writes it: a library, a file for decisions, and
    /// FILE of `@FILE` with the files that FILE names now. Files in the options of a library are not among them.
    ///
    /// # Errors
    /// The file of `@FILE` can't be read, or has no legal specification in it.
    pub fn files(&self) -> Result<Vec<(PathBuf, bool)>, SpecError> {
        Ok(match &self.kind {
            MapperKind::File(path) => {
                let kind = MapperKind::within(path)?;
                let named = Self { text: String::new(), kind, process: self.process, made: Arc::default() }.files()?;
                [(path.clone(), false)].into_iter().chain(named).collect()
            }
            MapperKind::Logging { file, inner } => {
                let inner = inner.clone().in_process(self.process).files()?;
                file.iter().map(|path| (of_process(path, self.process), true)).chain(inner).collect()
            }
            MapperKind::Library { path, .. } | MapperKind::Table(path) => vec![(path.clone(), false)],
            _ => Vec::new(),
        })
    }

    /// The text of the specification, as reports show it.
    pub fn name(&self) -> &str {
        &self.text
    }
}

impl FromStr for MapperSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Ok(Self { text: text.into(), kind: MapperKind::parse(text)?, process: 0, made: Arc::default() })
    }
}

/// The specification `collective`.
impl Default for MapperSpec {
    fn default() -> Self {
        Self { text: "collective".into(), kind: MapperKind::Collective, process: 0, made: Arc::default() }
    }
}

impl fmt::Display for MapperSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for MapperSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MapperSpec({:?})", self.text)
    }
}

impl PartialEq for MapperSpec {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for MapperSpec {}

impl Serialize for MapperSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Makes a stock mapper from its specification.
///
/// ```
/// assert_eq!(maniple_mapper::stock("random,seed=7").unwrap().name(), "random");
/// let library = maniple_mapper::stock("./libmine.so").map(|_| ()).unwrap_err().to_string();
/// assert_eq!(library, "mapper ./libmine.so: a shared library, where a stock mapper is expected");
/// ```
///
/// # Errors
/// The errors of parsing and of [`MapperSpec::load`]. A shared library is an error.
pub fn stock(spec: &str) -> Result<Arc<dyn Mapper>, SpecError> {
    fn none(path: &Path, _: &str) -> Result<Arc<dyn Mapper>, String> {
        Err(format!("{}: a shared library, where a stock mapper is expected", path.display()))
    }
    spec.parse::<MapperSpec>()?.load(&none)
}
