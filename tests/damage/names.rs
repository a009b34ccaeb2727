//! CURRENT names a MANIFEST of this directory by its number, never by a path.

use super::{killed_database, manifest, open, path, put_file};
use maypole::Error;
use maypole::fs::{Fs, MemFs};

#[test]
fn current_cannot_name_a_file_outside_of_the_directory() {
    let image = killed_database();
    let name = manifest(&image);
    let bytes = image.read(&path(&name)).unwrap();
    // Copies of the MANIFEST outside the directory and in a subdirectory. If a path in CURRENT were
    // followed, one of them would be read.
    image.create_dir_all(std::path::Path::new("/other")).unwrap();
    image.create_dir_all(&path("below")).unwrap();
    for place in [format!("/other/{name}"), format!("/db/below/{name}"), format!("/{name}")] {
        let mut file = image.create(std::path::Path::new(&place)).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
    }
    let number = name.strip_prefix("MANIFEST-").unwrap();
    for text in [
        format!("/other/{name}\n"),
        format!("../other/{name}\n"),
        format!("../{name}\n"),
        format!("below/{name}\n"),
        format!("./{name}\n"),
        format!("MANIFEST-../{name}\n"),
        format!("MANIFEST-/{number}\n"),
        format!("{name}/\n"),
        format!("{name}\0\n"),
        format!("{name}\n\n"),
        format!("{name} \n"),
        name.clone(),
        "MANIFEST-\n".into(),
        "MANIFEST-99999999999999999999999999\n".into(),
        "000001.sst\n".into(),
        "LOCK\n".into(),
        "\n".into(),
        String::new(),
    ] {
        assert_refused(&image, text.as_bytes());
    }
    assert_refused(&image, &[0xff, 0xfe, b'\n']);
    assert_refused(&image, &vec![b'M'; 1 << 20]);
}

fn assert_refused(image: &MemFs, current: &[u8]) {
    let fs = image.kill();
    put_file(&fs, "CURRENT", current);
    let shown = current[..current.len().min(60)].escape_ascii().to_string();
    match open(&fs) {
        Err(Error::Corruption { file, found, .. }) => {
            assert_eq!(file, path("CURRENT"), "{shown}");
            assert!(found.len() < 300, "{shown}: an error of {} bytes", found.len());
        }
        Err(other) => panic!("{shown}: {other}"),
        Ok(_) => panic!("{shown}: opened"),
    }
}
