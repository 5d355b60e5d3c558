//! Which files and folders a tool can regenerate, and the evidence for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::bounded_read;

/// The first bytes of a valid `CACHEDIR.TAG` (bford.info/cachedir).
const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// How many entries of a folder are read to find evidence.
const MAX_ENTRIES: usize = 10_000;

/// The longest `package.json` that is read.
const PACKAGE: u64 = 1024 * 1024;

/// Folders that the build script of a `package.json` writes, depending on the framework.
const BUILT: [&str; 10] = [
    ".next",
    ".nuxt",
    ".output",
    ".svelte-kit",
    ".parcel-cache",
    ".angular",
    ".turbo",
    "dist",
    "build",
    "out",
];

/// What Gradle puts into `build`.
const GRADLE_BUILT: [&str; 6] = [
    "classes",
    "libs",
    "tmp/compileJava",
    "intermediates",
    "kotlin",
    "reports/problems",
];

/// What Gradle puts into `.gradle`.
const GRADLE_CACHE: [&str; 4] = [
    "buildOutputCleanup",
    "vcs-1",
    "checksums",
    "file-system.probe",
];

/// Extensions of compiled files and of their sources.
const COMPILED: [(&str, &[&str]); 5] = [
    ("pyc", &["py"]),
    ("pyo", &["py"]),
    ("class", &["java", "kt"]),
    ("o", &["c", "cc", "cpp", "cxx", "rs", "go", "s", "S"]),
    ("obj", &["c", "cc", "cpp", "cxx"]),
];

/// The rule by which a folder is regenerable. `ignored` says whether git ignores it.
pub(super) fn folder(path: &Path, name: &OsStr, ignored: impl Fn() -> bool) -> Option<String> {
    let beside = path.parent()?;
    let rule = by_name(path, beside, name.to_str()?)
        .or_else(|| by_build(path, beside, name.to_str()?, ignored))?;
    has_no_user_data(path).then_some(rule)
}

/// A folder must contain one of these for [`by_content`] to return a rule.
pub(super) const MARKER_FILES: [&str; 2] = ["CACHEDIR.TAG", "CMakeCache.txt"];

/// The rule by which a folder is regenerable because of its content.
pub(super) fn by_content(path: &Path, ignored: impl Fn() -> bool) -> Option<String> {
    let built = || {
        let made = bounded_read::is_file(&path.join("CMakeCache.txt"))
            && !bounded_read::is_file(&path.join("CMakeLists.txt"));
        (made && ignored()).then(|| "ignored by git, and holding CMakeCache.txt".into())
    };
    let rule = by_tag(path).or_else(built)?;
    has_no_user_data(path).then_some(rule)
}

/// Whether nothing in a folder is a user's own work.
fn has_no_user_data(path: &Path) -> bool {
    !bounded_read::is_folder(&path.join(".git")) && !holds_data(path)
}

/// Whether a file has the name of a compiled one.
pub(super) fn is_compiled(name: &OsStr) -> bool {
    COMPILED.iter().any(|(compiled, _)| {
        let rest = name.as_bytes().strip_suffix(compiled.as_bytes());
        let stem = rest.and_then(|rest| rest.strip_suffix(b"."));
        stem.is_some_and(|stem| !stem.is_empty())
    })
}

/// The rule by which a file is regenerable: it is compiled from one beside it, and git ignores it.
pub(super) fn file(path: &Path, ignored: impl Fn() -> bool) -> Option<String> {
    let extension = path.extension()?.to_str()?;
    let (_, sources) = COMPILED
        .iter()
        .find(|(compiled, _)| *compiled == extension)?;
    let source = sources
        .iter()
        .map(|source| path.with_extension(source))
        .find(|source| bounded_read::is_file(source))?;
    let source = source.extension()?.to_str()?;
    ignored().then(|| format!("ignored by git, and compiled from a .{source} file beside it"))
}

fn by_tag(path: &Path) -> Option<String> {
    let start = bounded_read::start(&path.join("CACHEDIR.TAG"), SIGNATURE.len() as u64);
    (start == SIGNATURE).then(|| "holds a CACHEDIR.TAG".into())
}

fn by_name(path: &Path, beside: &Path, name: &str) -> Option<String> {
    let next_to = |files: &[&str]| first(beside, files).map(|file| format!("{name} beside {file}"));
    let holding = |files: &[&str]| first(path, files).map(|file| format!("{name} holding {file}"));
    match name {
        "node_modules" => next_to(&["package.json"])
            .or_else(|| holding(&[".package-lock.json", ".yarn-integrity", ".modules.yaml"])),
        "target" => next_to(&["Cargo.toml", "pom.xml", "build.sbt"]),
        ".venv" | "venv" | "env" => holding(&["pyvenv.cfg"]),
        "__pycache__" => {
            only(path, &["pyc", "pyo"]).then(|| "__pycache__ holding only compiled files".into())
        }
        ".mypy_cache" => {
            holding(&["missing_stubs"]).or_else(|| in_child(path, "@plugins_snapshot.json"))
        }
        ".pytest_cache" => holding(&["v/cache/lastfailed", "v/cache/nodeids", "v/cache/stepwise"]),
        ".tox" | ".nox" => holding(&[".tox-info.json"]).or_else(|| in_child(path, "pyvenv.cfg")),
        ".gradle" => gradle(beside).and_then(|_| gradle_rule(path, &GRADLE_CACHE)),
        "build" => gradle(beside).and_then(|_| gradle_rule(path, &GRADLE_BUILT)),
        "obj" => holding(&["project.assets.json"]),
        _ => None,
    }
}

/// Rules that also require git to ignore the folder: otherwise nothing says that it is not a
/// source.
fn by_build(path: &Path, beside: &Path, name: &str, ignored: impl Fn() -> bool) -> Option<String> {
    let rule = if BUILT.contains(&name) && has_build_script(&beside.join("package.json")) {
        "beside a package.json with a build script"
    } else if name == ".ruff_cache" && in_child(path, "").is_some() {
        "a ruff cache"
    } else if name == "dist" && python(beside) && only(path, &["whl", "gz", "zip"]) {
        "beside a Python project, holding only packages"
    } else if name.ends_with(".egg-info")
        && python(beside)
        && bounded_read::is_file(&path.join("PKG-INFO"))
    {
        "beside a Python project, holding PKG-INFO"
    } else if name == "vendor"
        && bounded_read::is_file(&beside.join("composer.lock"))
        && bounded_read::is_file(&path.join("composer/installed.json"))
    {
        "beside composer.lock, holding packages installed by composer"
    } else {
        return None;
    };
    ignored().then(|| format!("ignored by git, and {rule}"))
}

fn gradle(folder: &Path) -> Option<&'static str> {
    let files = [
        "build.gradle",
        "build.gradle.kts",
        "settings.gradle",
        "settings.gradle.kts",
    ];
    first_of(folder, files)
}

fn python(folder: &Path) -> bool {
    first_of(folder, ["pyproject.toml", "setup.py"]).is_some()
}

/// The first of these files that is in the folder.
fn first<'a>(folder: &Path, files: &[&'a str]) -> Option<&'a str> {
    first_of(folder, files.iter().copied())
}

fn first_of<'a>(folder: &Path, files: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut files = files.into_iter();
    files.find(|file| bounded_read::is_file(&folder.join(file)))
}

/// The rule for a folder that contains something Gradle makes.
fn gradle_rule(folder: &Path, made: &[&str]) -> Option<String> {
    let found = made.iter().find(|name| {
        let path = folder.join(name);
        bounded_read::is_folder(&path) || bounded_read::is_file(&path)
    })?;
    Some(format!("beside a Gradle build, holding {found}"))
}

/// The rule for a folder that contains a folder with `file`, or any folder if `file` is empty.
fn in_child(folder: &Path, file: &str) -> Option<String> {
    let entries = bounded_read::entries(folder, MAX_ENTRIES)?;
    let mut children = entries.iter().filter(|(_, is_folder)| *is_folder);
    children
        .any(|(name, _)| file.is_empty() || bounded_read::is_file(&folder.join(name).join(file)))
        .then(|| format!("its folders hold {file}"))
}

/// Whether the folder contains files with these extensions, and nothing else.
fn only(folder: &Path, endings: &[&str]) -> bool {
    let fits = |(name, is_folder): &(std::ffi::OsString, bool)| {
        let ending = Path::new(name).extension().and_then(OsStr::to_str);
        !is_folder && ending.is_some_and(|ending| endings.contains(&ending))
    };
    bounded_read::entries(folder, MAX_ENTRIES)
        .is_some_and(|entries| !entries.is_empty() && entries.iter().all(fits))
}

fn has_build_script(package: &Path) -> bool {
    let content = bounded_read::read(package, PACKAGE).unwrap_or_default();
    let package: Option<serde_json::Value> = serde_json::from_slice(&content).ok();
    package.is_some_and(|package| package["scripts"]["build"].is_string())
}

/// Whether the folder directly contains something that no tool regenerates: settings with secrets,
/// or a database. A folder that is too large to be listed counts as having none.
fn holds_data(folder: &Path) -> bool {
    let data = |(name, is_folder): &(std::ffi::OsString, bool)| {
        let Some(name) = name.to_str() else {
            return false;
        };
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let database = ["db", "sqlite", "sqlite3", "mdb", "duckdb"].contains(&ending);
        !is_folder && (database || name == ".env" || name.starts_with(".env."))
    };
    bounded_read::entries(folder, MAX_ENTRIES).is_some_and(|entries| entries.iter().any(data))
}
