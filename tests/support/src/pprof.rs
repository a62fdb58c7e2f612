//! A reader of pprof's profiles, with the decoder of another crate.

use prost::encoding::{WireType, decode_key, decode_varint};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// The fields of a message: numbers, and bytes.
struct Message {
    numbers: Vec<(u32, u64)>,
    bytes: Vec<(u32, Vec<u8>)>,
}

impl Message {
    fn decode(mut input: &[u8]) -> Self {
        let mut message = Self { numbers: Vec::new(), bytes: Vec::new() };
        while !input.is_empty() {
            let (field, kind) = decode_key(&mut input).expect("a key");
            let number = decode_varint(&mut input).expect("a number");
            match kind {
                WireType::Varint => message.numbers.push((field, number)),
                WireType::LengthDelimited => {
                    let (bytes, rest) = input.split_at(number as usize);
                    message.bytes.push((field, bytes.to_vec()));
                    input = rest;
                }
                other => panic!("{other:?}"),
            }
        }
        message
    }

    fn number(&self, field: u32) -> u64 {
        self.numbers.iter().find(|(number, _)| *number == field).map_or(0, |(_, value)| *value)
    }

    fn all(&self, field: u32) -> impl Iterator<Item = &[u8]> {
        self.bytes.iter().filter(move |(number, _)| *number == field).map(|(_, bytes)| &**bytes)
    }

    fn messages(&self, field: u32) -> impl Iterator<Item = Self> {
        self.all(field).map(Self::decode)
    }

    /// The numbers of a packed field.
    fn packed(&self, field: u32) -> Vec<u64> {
        let mut numbers = Vec::new();
        for mut bytes in self.all(field) {
            while !bytes.is_empty() {
                numbers.push(decode_varint(&mut bytes).expect("a number"));
            }
        }
        numbers
    }
}

pub struct Sample {
    /// The names of functions, innermost first.
    pub functions: Vec<String>,
    pub values: Vec<u64>,
    pub labels: BTreeMap<String, String>,
}

pub struct Mapping {
    pub path: String,
    pub build_id: String,
    /// Start, limit, offset in the file.
    pub range: [u64; 3],
    pub has_functions: bool,
}

pub struct Profile {
    pub types: Vec<[String; 2]>,
    pub default_type: String,
    pub samples: Vec<Sample>,
    pub comments: Vec<String>,
    pub mappings: Vec<Mapping>,
    pub nanoseconds: [u64; 2],
    pub period: u64,
}

impl Profile {
    /// Gunzips and decodes a file.
    pub fn decode(file: &[u8]) -> Self {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
        let profile = Message::decode(&bytes);
        let strings: Vec<_> =
            profile.all(6).map(|text| String::from_utf8(text.to_vec()).expect("UTF-8")).collect();
        assert_eq!(strings[0], "");
        assert_eq!(strings.iter().collect::<BTreeSet<_>>().len(), strings.len(), "each once");
        let text = |id: u64| strings[id as usize].clone();
        let functions: BTreeMap<_, _> = profile
            .messages(5)
            .map(|function| (function.number(1), text(function.number(2))))
            .collect();
        assert!(!functions.contains_key(&0));
        let mappings: Vec<_> = (profile.messages(3).enumerate())
            .map(|(at, mapping)| {
                assert_eq!(mapping.number(1), at as u64 + 1);
                Mapping {
                    path: text(mapping.number(5)),
                    build_id: text(mapping.number(6)),
                    range: [2, 3, 4].map(|field| mapping.number(field)),
                    has_functions: mapping.number(7) == 1,
                }
            })
            .collect();
        let mut names = BTreeMap::new();
        for location in profile.messages(4) {
            let (id, mapping, address) =
                (location.number(1), location.number(2), location.number(3));
            let lines = location.messages(4).map(|line| functions[&line.number(1)].clone());
            let lines: Vec<_> = lines.collect();
            if let Some(at) = mapping.checked_sub(1) {
                let [start, limit, _] = mappings[at as usize].range;
                assert!(
                    (start..limit).contains(&address),
                    "{address:#x} in {start:#x}..{limit:#x}"
                );
            }
            assert!(id > 0);
            let is_new = names
                .insert(id, if lines.is_empty() { vec![format!("{address:#x}")] } else { lines })
                .is_none();
            assert!(is_new);
        }
        let samples = profile.messages(2).map(|sample| Sample {
            functions: sample.packed(1).iter().flat_map(|id| names[id].clone()).collect(),
            values: sample.packed(2),
            labels: (sample.messages(3))
                .map(|label| (text(label.number(1)), text(label.number(2))))
                .collect(),
        });
        Self {
            samples: samples.collect(),
            types: profile
                .messages(1)
                .map(|kind| [1, 2].map(|field| text(kind.number(field))))
                .collect(),
            default_type: text(profile.number(14)),
            comments: profile.packed(13).into_iter().map(text).collect(),
            mappings,
            nanoseconds: [9, 10].map(|field| profile.number(field)),
            period: profile.number(12),
        }
    }

    /// The sum of a type by a key.
    pub fn sums<K: Ord>(&self, kind: usize, key: impl Fn(&Sample) -> K) -> BTreeMap<K, u64> {
        let mut sums = BTreeMap::new();
        for sample in &self.samples {
            *sums.entry(key(sample)).or_default() += sample.values[kind];
        }
        sums.retain(|_, sum| *sum > 0);
        sums
    }
}
