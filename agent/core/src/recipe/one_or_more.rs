//! A list in YAML that may be written as its only element.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOrMore<T>(pub Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map, or a list of maps")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMore<T>, A::Error> {
                let one = T::deserialize(MapAccessDeserializer::new(map))?;
                Ok(OneOrMore(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMore<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(next) = list.next_element()? {
                    all.push(next);
                }
                Ok(OneOrMore(all))
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}
