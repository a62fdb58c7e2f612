//! The folder of what this command keeps for its user and can make again.

use std::path::PathBuf;

/// `memledger` in the user's cache folder; `None` if the user has none.
pub fn cache_folder() -> Option<PathBuf> {
    // NOTE: by the XDG specification, an empty or relative path is no value.
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = named.filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    Some(cache.filter(|path| path.is_absolute())?.join("memledger"))
}
