//! Mappers by name, as on the command line.

use crate::stock::{
    CollectiveMapper, DefaultMapper, FirstChoiceMapper, LoggingMapper, NumaMapper, RandomMapper, RoundRobinMapper,
};
use crate::{Mapper, MapperSlot, files};
use serde::{Serialize, Serializer};
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Which mapper, as text: a name and options, `NAME[,OPTION=VALUE]…`, or the path of a shared library and its own options,
/// `./libmine.so[,…]`.
///
/// | name | options |
/// |---|---|
/// | `default` | the defaults of every call |
/// | `collective` | the founding paper's: see [`CollectiveMapper`] |
/// | `first` | always the first legal answer |
/// | `round-robin` | each processor in turn |
/// | `numa` | by the host's NUMA nodes |
/// | `random` | `seed=N`: drawn among the legal answers; without it, seed 0 |
/// | `logging` | `file=PATH`: writes decisions there, without it to stderr; `inner=SPEC`, which comes last: whose, without it those of `collective` |
///
/// `@FILE` is whatever FILE says in its first line, which can change while a program runs: see [`MapperSpec::reload`].
///
/// What has a `/` or `.so.` before its first comma, or ends in `.so` or `.dylib` there, is the path of a library
/// which therefore has no comma in it. Whoever asks for the mapper brings the [`Loader`] of libraries: `maniple_plugin::load`.
///
/// A mapper is made once; clones of its specification share it.
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
    kind: Kind,
    made: Arc<Mutex<Option<MapperSlot>>>,
}

#[derive(Debug, Clone)]
enum Kind {
    Default,
    Collective,
    First,
    RoundRobin,
    Numa,
    Random { seed: u64 },
    Logging { file: Option<PathBuf>, inner: Box<MapperSpec> },
    Library { path: PathBuf, options: String },
    File(PathBuf),
}

/// Makes mappers by shared libraries: a function from the path and the options, such as `maniple_plugin::load`. Its error
/// begins with the path.
pub trait Loader {
    /// A mapper that the library makes of the options.
    ///
    /// # Errors
    /// What is wrong with the library, or with the options.
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

/// Names of the stock mappers.
pub fn names() -> &'static [&'static str] {
    &["default", "collective", "first", "round-robin", "numa", "random", "logging"]
}

/// Why there is no mapper.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A name nobody knows.
    #[error("unknown mapper `{name}`; expected one of {}, the path of a shared library, or @FILE", names().join(", "))]
    Name {
        /// The name.
        name: String,
    },
    /// An option the mapper does not have.
    #[error("mapper {mapper}: unknown option `{option}`; {}", match *.legal {
        "" => "it has none".to_string(),
        legal => format!("expected {legal}"),
    })]
    Option {
        /// The mapper.
        mapper: String,
        /// What was given.
        option: String,
        /// What it has.
        legal: &'static str,
    },
    /// An option that is given twice.
    #[error("mapper {mapper}: option `{option}` is given twice")]
    Twice {
        /// The mapper.
        mapper: String,
        /// The option.
        option: String,
    },
    /// A value the option can't have.
    #[error("mapper {mapper}, option {option}: expected {expected}, found `{found}`")]
    Value {
        /// The mapper.
        mapper: String,
        /// The option.
        option: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What was given.
        found: String,
    },
    /// The file for the decisions can't be made.
    #[error("mapper logging: {}: can't be written: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of a specification can't be read.
    #[error("mapper @{}: can't be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What the file of a specification says is wrong.
    #[error("mapper @{}: {source}", .path.display())]
    Within {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<SpecError>,
    },
    /// The file of a specification names another file.
    #[error("mapper @{}: expected a name and options or the path of a library, found `{found}`", .path.display())]
    Nested {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// The library gives no mapper.
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
    /// The next option with its value. `inner` takes all that is left.
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

impl Kind {
    fn parse(text: &str) -> Result<Self, SpecError> {
        if let Some(path) = text.strip_prefix('@') {
            return Ok(Kind::File(path.into()));
        }
        let (name, rest) = text.split_once(',').map_or((text, None), |(name, rest)| (name, Some(rest)));
        if name.contains('/') || name.ends_with(".so") || name.contains(".so.") || name.ends_with(".dylib") {
            return Ok(Kind::Library { path: name.into(), options: rest.unwrap_or_default().into() });
        }
        let mut options = Options { mapper: name, rest, given: Vec::new(), legal: "" };
        let plain = match name {
            "default" => Kind::Default,
            "collective" => Kind::Collective,
            "first" => Kind::First,
            "round-robin" => Kind::RoundRobin,
            "numa" => Kind::Numa,
            "random" => {
                options.legal = "seed=N";
                let mut seed = 0;
                while let Some((option, value)) = options.next()? {
                    match option {
                        "seed" => seed = value.parse().map_err(|_| options.wrong("seed", "a number", value))?,
                        other => return Err(options.unknown(other)),
                    }
                }
                return Ok(Kind::Random { seed });
            }
            "logging" => {
                options.legal = "file=PATH or, last, inner=MAPPER";
                // Each asks the one within.
                let within = text.matches("inner=").count();
                if within > 16 {
                    return Err(options.wrong("inner", "at most 16 mappers within one another", &within.to_string()));
                }
                let (mut file, mut inner) = (None, "collective");
                while let Some((option, value)) = options.next()? {
                    match option {
                        "file" if value.is_empty() => return Err(options.wrong("file", "a path", value)),
                        "file" => file = Some(value.into()),
                        "inner" if value.starts_with('@') => {
                            return Err(options.wrong("inner", "a mapper that is not read from a file", value));
                        }
                        "inner" => inner = value,
                        other => return Err(options.unknown(other)),
                    }
                }
                return Ok(Kind::Logging { file, inner: Box::new(inner.parse()?) });
            }
            _ => return Err(SpecError::Name { name: name.into() }),
        };
        rest.map_or(Ok(plain), |option| Err(options.unknown(option)))
    }

    /// What the file of a specification says, which names no other such file.
    fn within(path: &Path) -> Result<Self, SpecError> {
        let owned = || path.to_owned();
        let line = first_line(path).map_err(|source| SpecError::Unreadable { path: owned(), source })?;
        match Kind::parse(line.trim()) {
            Ok(Kind::File(other)) => Err(SpecError::Nested { path: owned(), found: format!("@{}", other.display()) }),
            Ok(kind) => Ok(kind),
            Err(source) => Err(SpecError::Within { path: owned(), source: Box::new(source) }),
        }
    }

    /// A mapper; one that logs to a file begins it anew, or goes on with it.
    fn make(&self, loader: &dyn Loader, anew: bool) -> Result<Arc<dyn Mapper>, SpecError> {
        Ok(match self {
            Kind::Default => Arc::new(DefaultMapper),
            Kind::Collective => Arc::new(CollectiveMapper),
            Kind::First => Arc::new(FirstChoiceMapper),
            Kind::RoundRobin => Arc::new(RoundRobinMapper::default()),
            Kind::Numa => Arc::new(NumaMapper::here()),
            Kind::Random { seed } => Arc::new(RandomMapper::new(*seed)),
            Kind::Logging { file: None, inner } => Arc::new(LoggingMapper::new(inner.load(loader)?, std::io::stderr())),
            Kind::Logging { file: Some(path), inner } => {
                let inner = inner.load(loader)?;
                let file = log(path, anew).map_err(|source| SpecError::File { path: path.clone(), source })?;
                // Each line at once: what can't be written fails the run while there is one.
                Arc::new(LoggingMapper::new(inner, file))
            }
            Kind::File(path) => {
                let within = |source| SpecError::Within { path: path.clone(), source: Box::new(source) };
                Kind::within(path)?.make(loader, anew).map_err(within)?
            }
            Kind::Library { path, options } => loader.load(path, options).map_err(SpecError::Library)?,
        })
    }
}

/// A file for decisions, to the end of which each mapper that has it open writes.
fn log(path: &Path, anew: bool) -> io::Result<File> {
    let file = files::append(path)?;
    if anew {
        file.set_len(0)?;
    }
    Ok(file)
}

/// What a file that can be read again says in its first line.
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
    /// The slot with the mapper, which is made when it is first asked for. Makes files, and has the loader load
    /// libraries.
    ///
    /// # Errors
    /// A file that can't be read or written, or a library without a mapper; the next call tries again.
    pub fn slot(&self, loader: &dyn Loader) -> Result<MapperSlot, SpecError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = &*made {
            return Ok(slot.clone());
        }
        let slot = MapperSlot::new(self.kind.make(loader, true)?);
        *made = Some(slot.clone());
        Ok(slot)
    }

    /// The mapper that is in the [slot](Self::slot) now.
    ///
    /// # Errors
    /// Those of [`Self::slot`].
    pub fn load(&self, loader: &dyn Loader) -> Result<Arc<dyn Mapper>, SpecError> {
        Ok(self.slot(loader)?.current().mapper.clone())
    }

    /// The file that says which mapper it is, of `@FILE`.
    pub fn file(&self) -> Option<&Path> {
        match &self.kind {
            Kind::File(path) => Some(path),
            _ => None,
        }
    }

    /// Reads the file of `@FILE` again and replaces the mapper by the one it names now, in programs that run with it too.
    /// Any other specification means the same as before: nothing is done.
    ///
    /// # Errors
    /// Those of [`Self::slot`], and what is wrong with what the file says; the mapper before stays then.
    pub fn reload(&self, loader: &dyn Loader) -> Result<(), SpecError> {
        let slot = self.slot(loader)?;
        if self.file().is_some() {
            slot.replace(self.kind.make(loader, false)?);
        }
        Ok(())
    }

    /// The files that it names, each with whether it is written: a library, the file of decisions, and FILE of `@FILE` with
    /// those that FILE names now. What a library's own options name is not among them.
    ///
    /// # Errors
    /// The file of `@FILE` can't be read, or what it says is wrong.
    pub fn files(&self) -> Result<Vec<(PathBuf, bool)>, SpecError> {
        Ok(match &self.kind {
            Kind::File(path) => {
                let named = Self { text: String::new(), kind: Kind::within(path)?, made: Arc::default() }.files()?;
                [(path.clone(), false)].into_iter().chain(named).collect()
            }
            Kind::Logging { file, inner } => {
                file.iter().map(|path| (path.clone(), true)).chain(inner.files()?).collect()
            }
            Kind::Library { path, .. } => vec![(path.clone(), false)],
            _ => Vec::new(),
        })
    }

    /// The text it was parsed from: what reports show.
    pub fn name(&self) -> &str {
        &self.text
    }
}

impl FromStr for MapperSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Ok(Self { text: text.into(), kind: Kind::parse(text)?, made: Arc::default() })
    }
}

/// `collective`.
impl Default for MapperSpec {
    fn default() -> Self {
        Self { text: "collective".into(), kind: Kind::Collective, made: Arc::default() }
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

/// A new mapper of that specification, without libraries.
///
/// ```
/// assert_eq!(maniple_mapper::stock("random,seed=7").unwrap().name(), "random");
/// let library = maniple_mapper::stock("./libmine.so").map(|_| ()).unwrap_err().to_string();
/// assert_eq!(library, "mapper ./libmine.so: a shared library, where a stock mapper is expected");
/// ```
///
/// # Errors
/// Those of parsing and of [`MapperSpec::load`]; a library is one.
pub fn stock(spec: &str) -> Result<Arc<dyn Mapper>, SpecError> {
    fn none(path: &Path, _: &str) -> Result<Arc<dyn Mapper>, String> {
        Err(format!("{}: a shared library, where a stock mapper is expected", path.display()))
    }
    spec.parse::<MapperSpec>()?.load(&none)
}
