//! Tests of the contract of every file system, then of `MemFs` and `FaultFs` alone.

use std::io::ErrorKind;

use super::*;

fn write(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Box<dyn WritableFile> {
    let mut file = fs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.flush().unwrap();
    file
}

fn kind_of<T>(result: Result<T>) -> ErrorKind {
    match result {
        Err(Error::Io { source, .. }) => source.kind(),
        Err(error) => panic!("not an operating system error: {error}"),
        Ok(_) => panic!("no error"),
    }
}

/// Runs `test` in an empty directory of each file system except `DirectFs`. The tests in
/// `direct.rs` compare `DirectFs` with `RealFs`.
fn on_every_fs(test: impl Fn(&dyn Fs, &Path)) {
    let scratch = tempfile::tempdir().unwrap();
    test(&RealFs, scratch.path());
    let memory = MemFs::new();
    memory.create_dir_all(Path::new("/db")).unwrap();
    test(&memory, Path::new("/db"));
    let memory = Arc::new(MemFs::new());
    test(&FaultFs::new(memory), Path::new("/"));
}

#[test]
fn bytes_written_are_read_back_at_every_size() {
    on_every_fs(|fs, dir| {
        let path = dir.join("f");
        for size in [0, 1, WRITE_BUFFER_BYTES - 1, WRITE_BUFFER_BYTES, 3 * WRITE_BUFFER_BYTES + 7] {
            let bytes: Vec<u8> = (0..size).map(|i| (i * 7 + i / 256) as u8).collect();
            let mut file = fs.create(&path).unwrap();
            // The small pieces are appended first, so that the buffer is not empty when the large
            // piece is appended.
            let (head, rest) = bytes.split_at(size.min(100));
            head.chunks(9).for_each(|piece| file.append(piece).unwrap());
            file.append(rest).unwrap();
            assert_eq!(file.len(), size as u64);
            file.sync().unwrap();
            assert_eq!(fs.read(&path).unwrap(), bytes);
            let mut middle = vec![0; size / 2];
            fs.open(&path).unwrap().read_exact_at(size as u64 / 3, &mut middle).unwrap();
            assert_eq!(middle, bytes[size / 3..][..size / 2]);
        }
    });
}

#[test]
fn a_read_past_the_end_says_what_was_there() {
    on_every_fs(|fs, dir| {
        let path = dir.join("f");
        write(fs, &path, b"12345");
        let file = fs.open(&path).unwrap();
        for (offset, found) in [(3, 2), (5, 0), (6, 0), (u64::MAX, 0)] {
            let error = file.read_exact_at(offset, &mut [0; 4]).unwrap_err().to_string();
            assert!(error.contains(&format!("offset {offset}: expected 4 bytes")), "{error}");
            assert!(error.contains(&format!("found {found} bytes")), "{error}");
        }
        file.read_exact_at(5, &mut []).unwrap();
    });
}

#[test]
fn names_move_and_open_files_keep_their_bytes() {
    on_every_fs(|fs, dir| {
        let [a, b, c] = ["a", "b", "c"].map(|name| dir.join(name));
        write(fs, &a, b"first");
        fs.hard_link(&a, &c).unwrap();
        assert_eq!(kind_of(fs.hard_link(&a, &c)), ErrorKind::AlreadyExists);
        let open = fs.open(&a).unwrap();
        write(fs, &a, b"second");
        write(fs, &b, b"third");
        fs.rename(&b, &a).unwrap();
        assert_eq!(fs.read(&a).unwrap(), b"third");
        assert!(!fs.exists(&b).unwrap());
        fs.remove(&c).unwrap();
        let mut bytes = [0; 5];
        open.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"first");
        assert_eq!(fs.list(dir).unwrap(), ["a"]);
    });
}

#[test]
fn a_wrong_path_is_a_clear_error() {
    on_every_fs(|fs, dir| {
        let [file, missing, sub] = ["file", "missing", "sub"].map(|name| dir.join(name));
        write(fs, &file, b"");
        fs.create_dir_all(&sub.join("deeper")).unwrap();
        fs.create_dir_all(&sub).unwrap();
        assert_eq!(kind_of(fs.open(&missing)), ErrorKind::NotFound);
        assert_eq!(kind_of(fs.remove(&missing)), ErrorKind::NotFound);
        assert_eq!(kind_of(fs.rename(&missing, &file)), ErrorKind::NotFound);
        assert_eq!(kind_of(fs.list(&missing)), ErrorKind::NotFound);
        assert_eq!(kind_of(fs.sync_dir(&missing)), ErrorKind::NotFound);
        assert_eq!(kind_of(fs.create(&missing.join("x"))), ErrorKind::NotFound);
        assert_eq!(kind_of(fs.list(&file)), ErrorKind::NotADirectory);
        assert_eq!(kind_of(fs.create_dir_all(&file)), ErrorKind::NotADirectory);
        assert_eq!(kind_of(fs.create_dir_all(&file.join("x"))), ErrorKind::NotADirectory);
        assert_eq!(kind_of(fs.open(&sub)), ErrorKind::IsADirectory);
        let error = fs.open(&missing).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: cannot open", missing.display())), "{error}");
    });
}

#[test]
fn a_lock_is_held_by_one_and_given_back() {
    on_every_fs(|fs, dir| {
        let path = dir.join("LOCK");
        let held = fs.lock(&path).unwrap();
        let Err(Error::Locked { path: locked }) = fs.lock(&path) else { panic!("locked twice") };
        assert_eq!(locked, dir);
        // Another spelling of the path refers to the same lock.
        assert!(fs.lock(&dir.join(".").join("LOCK")).is_err());
        drop(held);
        fs.lock(&path).unwrap();
    });
}

#[test]
fn an_atomic_write_leaves_the_old_file_or_the_new_one() {
    let path = Path::new("/db/CURRENT");
    let setup = || {
        let memory = Arc::new(MemFs::new());
        create_dir_durably(&*memory, parent(path)).unwrap();
        write_atomic(&*memory, path, b"old").unwrap();
        memory
    };
    let counting = FaultFs::new(setup());
    write_atomic(&counting, path, b"new").unwrap();
    let changes = counting.calls(Target::Changes);
    assert!(changes >= 5, "create, append, sync, rename, sync_dir");
    let mut seen = [0; 2];
    for seed in 0..50 {
        for fail_at in 0..=changes {
            let memory = setup();
            let fs = FaultFs::new(memory.clone());
            fs.fail_from(Target::Changes, fail_at, Fault::Io);
            let result = write_atomic(&fs, path, b"new");
            let bytes = memory.crash(seed).read(path).unwrap();
            assert!(bytes == b"old" || bytes == b"new", "{bytes:?}");
            assert_eq!(result.is_ok(), fail_at == changes);
            if result.is_ok() {
                assert_eq!(bytes, b"new", "an acknowledged write was lost");
            }
            seen[usize::from(bytes == b"new")] += 1;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 50, "one outcome never happened: {seen:?}");
}

#[test]
fn synced_bytes_under_synced_names_survive_every_crash() {
    let fs = MemFs::new();
    let path = Path::new("/a/b/file");
    create_dir_durably(&fs, parent(path)).unwrap();
    let mut file = write(&fs, path, &[1; 10_000]);
    file.sync().unwrap();
    fs.sync_dir(parent(path)).unwrap();
    file.append(&[2; 50_000]).unwrap();
    file.flush().unwrap();
    file.append(&[3; 10]).unwrap();
    let (mut shortest, mut longest, mut holes) = (u64::MAX, 0, 0);
    for seed in 0..200 {
        let bytes = fs.crash(seed).read(path).unwrap();
        assert!(bytes.len() >= 10_000 && bytes[..10_000].iter().all(|&byte| byte == 1));
        assert!(bytes.len() <= 60_000, "bytes that were never flushed came back");
        let lost = bytes[10_000..].iter().position(|&byte| byte != 2);
        holes += u32::from(lost.is_some_and(|at| bytes[10_000 + at..].contains(&2)));
        shortest = shortest.min(bytes.len() as u64);
        longest = longest.max(bytes.len() as u64);
    }
    assert!(shortest < 20_000 && longest == 60_000, "{shortest} {longest}");
    assert!(holes > 20, "blocks do not survive independently");
    // The process was killed and the system continues: all flushed bytes are there, but not yet
    // durable.
    let killed = fs.kill();
    assert_eq!(killed.read(path).unwrap().len(), 60_000);
    assert!((0..20).any(|seed| killed.crash(seed).read(path).unwrap().len() < 60_000));
}

#[test]
fn unsynced_names_survive_independently() {
    let fs = MemFs::new();
    let dir = Path::new("/db");
    create_dir_durably(&fs, dir).unwrap();
    let [old, renamed, created] = ["old", "renamed", "created"].map(|name| dir.join(name));
    write(&fs, &old, b"old").sync().unwrap();
    fs.sync_dir(dir).unwrap();
    fs.rename(&old, &renamed).unwrap();
    write(&fs, &created, b"created").sync().unwrap();
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let image = fs.crash(seed);
        let names = image.list(dir).unwrap();
        for name in &names {
            let bytes = image.read(&dir.join(name)).unwrap();
            assert_eq!(bytes, if name == "created" { &b"created"[..] } else { b"old" });
        }
        // An image is durable: a second crash loses nothing more.
        assert_eq!(image.crash(seed + 1).list(dir).unwrap(), names);
        outcomes.insert(names.join(" "));
    }
    let expected = ["created old", "created renamed", "old", "renamed"];
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), expected);
    fs.sync_dir(dir).unwrap();
    assert!((0..50).all(|seed| fs.crash(seed).list(dir).unwrap() == ["created", "renamed"]));
    // The name of the new directory is not durable before a sync of its parent.
    fs.create_dir_all(&dir.join("sub")).unwrap();
    assert!((0..50).any(|seed| !fs.crash(seed).exists(&dir.join("sub")).unwrap()));
}

#[test]
fn an_image_and_the_original_go_separate_ways() {
    let fs = MemFs::new();
    let path = Path::new("file");
    let mut file = write(&fs, path, b"shared");
    let image = fs.kill();
    file.append(b" and more").unwrap();
    file.sync().unwrap();
    write(&fs, Path::new("other"), b"");
    assert_eq!(image.read(path).unwrap(), b"shared");
    assert_eq!(image.list(Path::new("")).unwrap(), ["file"]);
    assert_eq!(fs.read(path).unwrap(), b"shared and more");
}

#[test]
fn faults_come_when_they_are_due() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let path = Path::new("file");
    fs.fail_once(Target::Only(Operation::Append), 1, Fault::ShortWrite);
    let mut file = fs.create(path).unwrap();
    file.append(b"whole.").unwrap();
    let error = file.append(b"half gone").unwrap_err();
    assert!(error.to_string().starts_with("file: cannot write: "), "{error}");
    assert!(error.is_out_of_space(), "{error}");
    assert_eq!(fs.read(path).unwrap(), b"whole.half");
    fs.fail_from(Target::Changes, 1, Fault::NoSpace);
    file.append(b".").unwrap();
    assert!(file.append(b".").is_err() && file.flush().is_err());
    fs.read(path).unwrap();
    fs.heal();
    file.flush().unwrap();
    assert_eq!((fs.calls(Target::Only(Operation::Append)), fs.faults()), (4, 3));
}

#[test]
fn a_retried_sync_reports_success_and_saves_nothing() {
    let memory = Arc::new(MemFs::new());
    let fs = FaultFs::new(memory.clone());
    let path = Path::new("file");
    let mut file = fs.create(path).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(b"precious").unwrap();
    fs.fail_once(Target::Only(Operation::Sync), 0, Fault::Io);
    file.sync().unwrap_err();
    file.sync().unwrap();
    assert!((0..50).any(|seed| memory.crash(seed).read(path).unwrap() != b"precious"));
}

#[test]
fn the_hook_sees_every_change_before_it_happens() {
    let memory = Arc::new(MemFs::new());
    let fs = FaultFs::new(memory.clone());
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    fs.before_changes(move |number, operation, path| {
        let entry = (number, operation, memory.exists(path).unwrap());
        log.lock().unwrap().push(entry);
    });
    let path = Path::new("file");
    write(&fs, path, b"x");
    fs.read(path).unwrap();
    fs.remove(path).unwrap();
    let expected = [
        (0, Operation::Create, false),
        (1, Operation::Append, true),
        (2, Operation::Flush, true),
        (3, Operation::Remove, true),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn a_limited_memory_is_full_at_its_capacity_and_knows_how_much_is_free() {
    let fs = MemFs::with_capacity(10);
    let free = || fs.free_bytes(Path::new("/")).unwrap().unwrap();
    let mut file = write(&fs, Path::new("a"), b"seven..");
    assert_eq!(free(), 3);
    file.append(b"four").unwrap();
    assert!(file.flush().unwrap_err().is_out_of_space());
    file.discard_unflushed().unwrap();
    assert_eq!((free(), fs.read(Path::new("a")).unwrap()), (3, b"seven..".to_vec()));
    fs.remove(Path::new("a")).unwrap();
    assert_eq!(free(), 10);
    write(&fs, Path::new("b"), b"ten bytes.");
    assert_eq!((free(), MemFs::new().free_bytes(Path::new("/")).unwrap()), (0, None));
}

#[test]
#[cfg(unix)]
fn the_system_knows_how_much_is_free() {
    let scratch = tempfile::tempdir().unwrap();
    let free = |fs: &dyn Fs| fs.free_bytes(scratch.path()).unwrap().unwrap();
    assert!(free(&RealFs) > 0);
    assert!(free(&*RealFs.anchored(scratch.path()).unwrap().unwrap()) > 0);
    assert!(RealFs.free_bytes(&scratch.path().join("none")).is_err());
}
