//! What requests to one partition have in common: read past the general codec, and only where nothing is out of the
//! common. None always means that the general codec is to read it, and to say what is wrong, if anything is.

use std::ops::RangeInclusive;

use super::wire::{Reader, STRING_BYTES_MAX, put_unsigned_varint};

/// How a request names its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic<'a> {
    Name(&'a str),
    Id([u8; 16]),
}

impl Topic<'_> {
    /// How many bytes it is, without a length.
    pub(super) fn size(&self) -> usize {
        match self {
            Topic::Name(name) => name.len(),
            Topic::Id(id) => id.len(),
        }
    }
}

/// An API, as far as its requests to one partition go.
pub(super) struct Api {
    pub(super) key: i16,
    pub(super) versions: RangeInclusive<i16>,
    pub(super) first_flexible_version: i16,
    pub(super) first_topic_id_version: i16,
}

/// What stands in front of every request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) client_id: Option<&'a str>,
}

impl Api {
    /// The header of a frame without its length, and what is left to read.
    #[inline]
    pub(super) fn header<'a>(&self, frame: &'a [u8]) -> Option<(Header<'a>, Fields<'a>)> {
        if !frame.starts_with(&self.key.to_be_bytes()) {
            return None;
        }
        let mut fields = Fields {
            reader: Reader::new(frame, size_of_val(&self.key)),
            flexible: false,
            has_topic_ids: false,
        };
        let version = fields.int16()?;
        if !self.versions.contains(&version) {
            return None;
        }
        let correlation_id = fields.int32()?;
        // In the form with two bytes of length in all versions.
        let client_id = fields.nullable_string()?;
        fields.flexible = version >= self.first_flexible_version;
        fields.has_topic_ids = version >= self.first_topic_id_version;
        fields.no_tagged_fields()?;
        let header = Header {
            version,
            correlation_id,
            client_id,
        };
        Some((header, fields))
    }

    /// The frame that answers, up to what stands in `Answer`; its length is put in when it is whole.
    pub(super) fn answer(&self, version: i16, correlation_id: i32, capacity: usize) -> Answer {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&[0; Answer::LENGTH_BYTES]);
        bytes.extend_from_slice(&correlation_id.to_be_bytes());
        let mut answer = Answer {
            bytes,
            flexible: version >= self.first_flexible_version,
        };
        answer.no_tagged_fields();
        answer
    }
}

/// The fields of a request, one after the other.
pub(super) struct Fields<'a> {
    reader: Reader<'a>,
    flexible: bool,
    has_topic_ids: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn int8(&mut self) -> Option<i8> {
        self.reader.array().ok().map(i8::from_be_bytes)
    }

    pub(super) fn int16(&mut self) -> Option<i16> {
        self.reader.array().ok().map(i16::from_be_bytes)
    }

    pub(super) fn int32(&mut self) -> Option<i32> {
        self.reader.array().ok().map(i32::from_be_bytes)
    }

    pub(super) fn int64(&mut self) -> Option<i64> {
        self.reader.array().ok().map(i64::from_be_bytes)
    }

    /// The inner none is null.
    pub(super) fn nullable_string(&mut self) -> Option<Option<&'a str>> {
        match self.reader.string_length(self.flexible).ok()? {
            None => Some(None),
            Some(size) if size > STRING_BYTES_MAX => None,
            Some(size) => std::str::from_utf8(self.reader.take(size).ok()?)
                .ok()
                .map(Some),
        }
    }

    pub(super) fn topic(&mut self) -> Option<Topic<'a>> {
        if self.has_topic_ids {
            self.reader.array().ok().map(Topic::Id)
        } else {
            self.nullable_string()?.map(Topic::Name)
        }
    }

    /// None unless the array that begins here has so many elements.
    pub(super) fn count(&mut self, expected: usize) -> Option<()> {
        (self.reader.length(self.flexible).ok()?? == expected).then_some(())
    }

    /// Bytes, and where in the frame they begin; none when they are null.
    pub(super) fn bytes(&mut self) -> Option<(&'a [u8], usize)> {
        let size = self.reader.length(self.flexible).ok()??;
        let start = self.reader.position();
        self.reader.take(size).ok().map(|bytes| (bytes, start))
    }

    pub(super) fn no_tagged_fields(&mut self) -> Option<()> {
        (!self.flexible || self.reader.tagged_field_count().ok()? == 0).then_some(())
    }

    /// None unless this is the end.
    pub(super) fn end(&self) -> Option<()> {
        (self.reader.remaining() == 0).then_some(())
    }
}

/// An answer while it is written.
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    pub(super) flexible: bool,
}

impl Answer {
    const LENGTH_BYTES: usize = 4;

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The length of an array or of bytes.
    pub(super) fn length(&mut self, length: u32) {
        if self.flexible {
            put_unsigned_varint(&mut self.bytes, length + 1);
        } else {
            self.put(&length.to_be_bytes());
        }
    }

    /// No array, and no string behind a length of `width` bytes.
    pub(super) fn null(&mut self, width: usize) {
        if self.flexible {
            self.put(&[0]);
        } else {
            self.put(&[0xff; size_of::<i32>()][..width]);
        }
    }

    /// A topic of a request: a name that was read there fits, it is never longer than STRING_BYTES_MAX.
    pub(super) fn topic(&mut self, topic: Topic<'_>) {
        match topic {
            Topic::Id(id) => self.put(&id),
            Topic::Name(name) => {
                if self.flexible {
                    put_unsigned_varint(&mut self.bytes, name.len() as u32 + 1);
                } else {
                    self.put(&(name.len() as i16).to_be_bytes());
                }
                self.put(name.as_bytes());
            }
        }
    }

    pub(super) fn no_tagged_fields(&mut self) {
        if self.flexible {
            self.put(&[0]);
        }
    }

    /// Writes the length of the frame into its place: of these bytes and so many more. None when it cannot say it.
    pub(super) fn close(&mut self, more: usize) -> Option<()> {
        let size = i32::try_from(self.bytes.len() - Self::LENGTH_BYTES + more).ok()?;
        self.bytes[..Self::LENGTH_BYTES].copy_from_slice(&size.to_be_bytes());
        Some(())
    }
}
