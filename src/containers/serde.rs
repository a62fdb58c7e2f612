//! Serialises and deserialises containers as the plain ones. A container that is read takes the tag
//! of the thread's context: `tagged(TAG, || from_str(..))` gives `TAG` to every container read
//! inside.

use super::{
    TaggedBTreeMap, TaggedBTreeSet, TaggedBinaryHeap, TaggedBox, TaggedHashMap, TaggedHashSet,
    TaggedString, TaggedVec, TaggedVecDeque,
};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

/// Capacity is reserved for at most this many elements: the length in the input may be wrong.
const TRUSTED: usize = 1024;

macro_rules! sequence {
    ($($container:ident [T $(: $bound:path $(, $more:path)*)? $(; $hasher:ident)?]
        |$it:ident, $size:ident| $reserve:expr, |$element:ident| $add:expr;)*) => {$(
        impl<T: Serialize $(, $hasher)?> Serialize for $container<T $(, $hasher)?> {
            fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                serializer.collect_seq(self)
            }
        }

        impl<'de, T: Deserialize<'de> $(+ $bound $(+ $more)*)? $(, $hasher: BuildHasher + Default)?>
            Deserialize<'de> for $container<T $(, $hasher)?>
        {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reads<C>(PhantomData<C>);
                impl<'de, T, $($hasher)?> Visitor<'de> for Reads<$container<T $(, $hasher)?>>
                where
                    T: Deserialize<'de> $(+ $bound $(+ $more)*)?,
                    $($hasher: BuildHasher + Default,)?
                {
                    type Value = $container<T $(, $hasher)?>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a sequence")
                    }

                    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                        let mut $it = Self::Value::default();
                        let $size = seq.size_hint().unwrap_or(0).min(TRUSTED);
                        $reserve;
                        while let Some($element) = seq.next_element()? {
                            $add;
                        }
                        Ok($it)
                    }
                }
                deserializer.deserialize_seq(Reads(PhantomData))
            }
        }
    )*};
}

sequence! {
    TaggedVec [T] |it, size| it.reserve(size), |element| it.push(element);
    TaggedVecDeque [T] |it, size| it.reserve(size), |element| it.push_back(element);
    TaggedHashSet [T: Eq, Hash; S] |it, size| it.reserve(size), |element| it.insert(element);
    TaggedBTreeSet [T: Ord] |it, size| _ = size, |element| it.insert(element);
    TaggedBinaryHeap [T: Ord] |it, size| it.reserve(size), |element| it.push(element);
}

macro_rules! map {
    ($($container:ident [K: $bound:path $(, $more:path)* $(; $hasher:ident)?]
        |$it:ident, $size:ident| $reserve:expr;)*) => {$(
        impl<K: Serialize, V: Serialize $(, $hasher)?> Serialize for $container<K, V $(, $hasher)?> {
            fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                serializer.collect_map(self)
            }
        }

        impl<'de, K, V, $($hasher)?> Deserialize<'de> for $container<K, V $(, $hasher)?>
        where
            K: Deserialize<'de> + $bound $(+ $more)*,
            V: Deserialize<'de>,
            $($hasher: BuildHasher + Default,)?
        {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reads<C>(PhantomData<C>);
                impl<'de, K, V, $($hasher)?> Visitor<'de> for Reads<$container<K, V $(, $hasher)?>>
                where
                    K: Deserialize<'de> + $bound $(+ $more)*,
                    V: Deserialize<'de>,
                    $($hasher: BuildHasher + Default,)?
                {
                    type Value = $container<K, V $(, $hasher)?>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a map")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut $it = Self::Value::default();
                        let $size = map.size_hint().unwrap_or(0).min(TRUSTED);
                        $reserve;
                        while let Some((key, value)) = map.next_entry()? {
                            $it.insert(key, value);
                        }
                        Ok($it)
                    }
                }
                deserializer.deserialize_map(Reads(PhantomData))
            }
        }
    )*};
}

map! {
    TaggedHashMap [K: Eq, Hash; S] |it, size| it.reserve(size);
    TaggedBTreeMap [K: Ord] |it, size| _ = size;
}

impl Serialize for TaggedString {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for TaggedString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = TaggedString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TaggedString, E> {
                Ok(text.into())
            }

            fn visit_string<E: Error>(self, text: String) -> Result<TaggedString, E> {
                Ok(text.into())
            }
        }
        deserializer.deserialize_string(Reads)
    }
}

impl<T: ?Sized + Serialize> Serialize for TaggedBox<T> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        T::serialize(self, serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TaggedBox<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        Ok(Self::made(super::own_tag::OwnTag::of_thread(), value))
    }
}
