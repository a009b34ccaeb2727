//! Tests of the family as a whole.
use super::*;
use crate::filter::{FilterBuilder, FilterSpec, Family};

fn db_bench_hashes(n: usize, ks: usize) -> Vec<u64> {
    (0..n as u64).map(|i| { let mut k = vec![b'0'; ks]; k[..8].copy_from_slice(&i.to_be_bytes()); crate::hash64(&k) }).collect()
}
#[test]
#[ignore]
fn golden() {
    let (mut same, mut bloom, mut reseeds) = (0, 0, 0);
    for e in std::fs::read_dir("/tmp/rdb/golden").unwrap() {
        let p = e.unwrap().path();
        let stem = p.file_stem().unwrap().to_str().unwrap().to_owned();
        let v: Vec<f64> = stem.split('_').map(|x| x.parse().unwrap()).collect();
        let bytes = std::fs::read(&p).unwrap();
        let h = db_bench_hashes(v[0] as usize, v[1] as usize);
        let mut b = FilterBuilder::new(FilterSpec::ribbon_like_bloom(v[2]).unwrap());
        h.iter().for_each(|&h| b.add(h));
        let f = b.finish().unwrap();
        if f.family() == Family::Bloom { bloom += 1; } else if f.bytes()[f.bytes().len() - 4] != h[0] as u8 { reseeds += 1; println!("reseed {stem}"); }
        if f.bytes() == &bytes[..] { same += 1; } else { println!("DIFF {stem}: {} vs {} {:?} {:?}", bytes.len(), f.bytes().len(), &bytes[bytes.len() - 5..], &f.bytes()[f.bytes().len() - 5..]); }
    }
    println!("same {same} bloom {bloom} reseeds {reseeds}");
}
