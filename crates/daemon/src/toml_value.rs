use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_spanned::de::{SpannedDeserializer, is_spanned};
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeFloat, DeInteger, DeTable, DeValue, Error, ValueDeserializer};

/// Reads a type from a TOML document as `toml` itself does, but for what no configuration has: tables that are written as arrays, dates,
/// and enumerations with contents. (What `toml` reads types from accepts every kind of value for every type, all of which is compiled
/// for each: a twentieth of this program.)
///
/// # Errors
/// The document says what no such type has, or lacks something.
pub fn read_table<'de, T: Deserialize<'de>>(table: DeTable<'de>) -> Result<T, Error> {
    T::deserialize(MapAccessDeserializer::new(Entries::new(table)))
}

/// A value of a TOML document.
struct TomlValue<'de>(Spanned<DeValue<'de>>);

impl TomlValue<'_> {
    fn refuse(&self, expected: &dyn Expected) -> Error {
        let found = match self.0.get_ref() {
            DeValue::String(text) => Unexpected::Str(text),
            DeValue::Integer(number) => match (signed(number), unsigned(number)) {
                (Some(number), _) => Unexpected::Signed(number),
                (None, Some(number)) => Unexpected::Unsigned(number),
                (None, None) => Unexpected::Other("integer"),
            },
            DeValue::Float(number) => Unexpected::Float(float(number).unwrap_or(f64::INFINITY)),
            DeValue::Boolean(truth) => Unexpected::Bool(*truth),
            DeValue::Datetime(_) | DeValue::Table(_) => Unexpected::Map,
            DeValue::Array(_) => Unexpected::Seq,
        };
        place(Error::invalid_type(found, expected), self.0.span())
    }
}

fn signed(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn unsigned(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// None where it is too great.
fn float(number: &DeFloat<'_>) -> Option<f64> {
    let value: f64 = number.as_str().parse().ok()?;
    (value.is_finite() || !number.as_str().contains(|c: char| c.is_ascii_digit())).then_some(value)
}

/// The error stands there, unless it says where it stands.
fn place(error: Error, span: Range<usize>) -> Error {
    if error.span().is_some() {
        return error;
    }
    let refused = ValueDeserializer::from(Spanned::new(span, DeValue::Boolean(true))).deserialize_any(Refusal(&error));
    refused.err().unwrap_or(error)
}

/// Refuses any value for a reason: only `toml` can say where its errors stand.
struct Refusal<'e>(&'e Error);

impl Visitor<'_> for Refusal<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        Err(E::custom(self.0.message()))
    }
}

/// Methods of a deserializer that accept some kinds of values, and those that accept the same.
macro_rules! read_kinds {
    ($($method:ident($($same:ident)*): |$visitor:ident| { $($kind:pat => $read:expr,)+ })+) => {$(
        fn $method<V: Visitor<'de>>(self, $visitor: V) -> Result<V::Value, Error> {
            let span = self.0.span();
            match self.0.into_inner() {
                $($kind => $read,)+
                other => Err(TomlValue(Spanned::new(span.clone(), other)).refuse(&$visitor)),
            }
            .map_err(|error| place(error, span))
        }

        $(
            fn $same<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
                self.$method(visitor)
            }
        )*
    )+};
}

impl<'de> Deserializer<'de> for TomlValue<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.get_ref() {
            DeValue::String(_) => self.deserialize_str(visitor),
            DeValue::Integer(_) | DeValue::Float(_) => self.deserialize_f64(visitor),
            DeValue::Boolean(_) => self.deserialize_bool(visitor),
            DeValue::Array(_) => self.deserialize_seq(visitor),
            DeValue::Table(_) | DeValue::Datetime(_) => self.deserialize_map(visitor),
        }
    }

    read_kinds! {
        deserialize_bool(): |visitor| { DeValue::Boolean(truth) => visitor.visit_bool(truth), }

        deserialize_f64(
            deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
            deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32
        ): |visitor| {
            DeValue::Integer(number) => match (signed(&number), unsigned(&number)) {
                (Some(number), _) => visitor.visit_i64(number),
                (None, Some(number)) => visitor.visit_u64(number),
                (None, None) => Err(Error::custom("integer number overflowed")),
            },
            DeValue::Float(number) => match float(&number) {
                Some(number) => visitor.visit_f64(number),
                None => Err(Error::custom("floating-point number overflowed")),
            },
        }

        deserialize_str(
            deserialize_char deserialize_string deserialize_bytes deserialize_byte_buf deserialize_identifier
        ): |visitor| { DeValue::String(text) => visitor.visit_str(&text), }

        deserialize_seq(): |visitor| { DeValue::Array(values) => visitor.visit_seq(Elements(values.into_iter())), }

        deserialize_map(): |visitor| { DeValue::Table(table) => visitor.visit_map(Entries::new(table)), }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if is_spanned(name) {
            let span = self.0.span();
            return visitor.visit_map(SpannedDeserializer::new(self, span));
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let span = self.0.span();
        let DeValue::String(name) = self.0.get_ref() else { return Err(self.refuse(&"a string")) };
        let name: StrDeserializer<'_, Error> = (**name).into_deserializer();
        visitor.visit_enum(name).map_err(|error| place(error, span))
    }

    // What is not there is not written.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        let span = self.0.span();
        visitor.visit_newtype_struct(self).map_err(|error| place(error, span))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        Err(self.refuse(&visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        Err(self.refuse(&visitor))
    }
}

impl<'de> IntoDeserializer<'de, Error> for TomlValue<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Elements<'de>(<DeArray<'de> as IntoIterator>::IntoIter);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|value| seed.deserialize(TomlValue(value))).transpose()
    }
}

/// Of a table: those that are left, and the value of the key that was read.
struct Entries<'de> {
    left: <DeTable<'de> as IntoIterator>::IntoIter,
    value: Option<Spanned<DeValue<'de>>>,
}

impl<'de> Entries<'de> {
    fn new(table: DeTable<'de>) -> Self {
        Entries { left: table.into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(value);
        let span = key.span();
        let key = TomlValue(Spanned::new(span.clone(), DeValue::String(key.into_inner())));
        seed.deserialize(key).map(Some).map_err(|error| place(error, span))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value is read after its key"))?;
        let span = value.span();
        seed.deserialize(TomlValue(value)).map_err(|error| place(error, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        number: Option<u8>,
        ratio: Option<f64>,
        name: Option<Spanned<String>>,
        kind: Option<Kind>,
        #[serde(default)]
        pairs: Vec<(String, i64)>,
        #[serde(default)]
        parts: BTreeMap<String, Part>,
        list: Option<Vec<Spanned<u16>>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        One,
        Other,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Part {
        is_new: bool,
        value: Option<Either>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(f64),
        Text(String),
        Many(Vec<u64>),
    }

    #[test]
    fn it_reads_and_refuses_the_same_as_toml_in_the_same_words_and_places() {
        let accepted = [
            "",
            "number = 0x1f\nratio = 1\nname = \"a\\tb\"\nkind = \"other\"",
            "ratio = -2.5e3\npairs = [[\"a\", -1], ['b', 2]]\nlist = [1, 2]",
            "[parts.a]\nis_new = true\nunknown = { date = 1979-05-27, list = [1] }\n[parts.\"b.c\"]\nis_new = false\nvalue = 3",
            "parts = { a = { is_new = true, value = \"x\" }, b = { is_new = true, value = [18446744073709551615] } }",
        ];
        let refused = [
            "number = 256",
            "number = -1",
            "number = 1.5",
            "number = \"1\"",
            "ratio = true",
            "ratio = 1e999",
            "name = 3",
            "kind = \"third\"",
            "pairs = [[\"a\"]]",
            "pairs = [\n  [\"a\", \"b\"],\n]",
            "unknown = 1",
            "list = [1, 70000]",
            "list = 1",
            "[parts.a]\nvalue = 3",
            "[parts.a]\nis_new = 1",
            "[parts.a]\nis_new = true\nvalue = true",
            "[[parts]]\nis_new = true",
            "number = ",
        ];
        for text in accepted.into_iter().chain(refused) {
            let read = DeTable::parse(text).and_then(|document| read_table::<Document>(document.into_inner()));
            let same = toml::from_str::<Document>(text);
            let words = |result: Result<_, Error>| result.map_err(|error| (error.message().to_owned(), error.span()));
            assert_eq!(same.is_ok(), accepted.contains(&text), "{text}: {same:?}");
            assert_eq!(words(read), words(same), "{text}");
        }
    }
}
