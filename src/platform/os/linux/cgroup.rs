//! How much memory the process may have: the limits of its control groups.

use std::fs;
use std::path::{Path, PathBuf};

/// The smallest limit of the control groups that this process is in, in bytes; `None` if they have none, or
/// if the system does not say. Costs some reads of small files.
pub(crate) fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    smallest_limit(Path::new("/sys/fs/cgroup"), &groups)
}

/// `groups` has a line for each hierarchy: number, controllers, path (`man 7 cgroups`). In a container, the
/// path can be one of the host, of which only the last folder is mounted, at the root.
fn smallest_limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group: PathBuf = root.join(path.trim_start_matches('/'));
        let groups = group.ancestors().take_while(|group| group.starts_with(&root));
        groups.filter_map(|group| limit(&group.join(file))).min()
    });
    limits.min()
}

/// The limit in a file; `None` for `max`, and for the number that means the same in the first version.
fn limit(file: &Path) -> Option<u64> {
    const NONE: u64 = 1 << 62;
    let bytes = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (bytes < NONE).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_on_the_way_to_the_root_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let of = |groups| smallest_limit(root, groups);
        assert_eq!(of("0::/a/b\n"), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(of("0::/a/b\n"), None);
        write("a/memory.max", "2048\n");
        assert_eq!(of("0::/a/b\n"), Some(2048));
        write("a/b/memory.max", "4096\n");
        assert_eq!((of("0::/a/b\n"), of("0::/\n")), (Some(2048), None));
        // Of a container: its own group is at the root, whatever the host calls it.
        write("memory.max", "1024");
        assert_eq!(of("0::/docker/0123\n"), Some(1024));
        // The first version.
        write("memory/x/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/memory.limit_in_bytes", "512\n");
        assert_eq!(of("11:cpu:/y\n4:hugetlb,memory:/x\n1:name=systemd:/\n"), Some(512));
        assert_eq!(of("nonsense\n\n"), None);
    }
}
