//! Plans: a message of one version with every question of versions answered.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::slot::Slot;

/// What one value on the wire is.
pub(super) enum Element {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint16,
    Uint32,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    Struct(StructPlan),
}

/// A field that the version carries.
pub(super) struct FieldPlan {
    pub(super) name: String,
    pub(super) slot: Slot,
    pub(super) element: Element,
    pub(super) is_array: bool,
    pub(super) nullable: bool,
    /// Lengths are varints of the length plus one, and 0 is null.
    pub(super) compact: bool,
    pub(super) tag: u32,
    /// What stands in place of a struct that is null; 1 stands before one that is not (KIP-893).
    pub(super) null_marker: u8,
    pub(super) default: Py<PyAny>,
    /// The fewest bytes that an element of the array takes, at least 1: it bounds the count that may be claimed.
    pub(super) element_bytes_min: usize,
}

/// A field that the version does not carry: it holds its default, unless it may be dropped.
pub(super) struct AbsentField {
    pub(super) name: String,
    pub(super) slot: Slot,
    pub(super) default: Py<PyAny>,
    pub(super) ignorable: bool,
}

/// A struct: its class, and its fields in the order of the wire.
pub(super) struct StructPlan {
    pub(super) class: Py<PyType>,
    pub(super) flexible: bool,
    pub(super) fields: Vec<FieldPlan>,
    /// In ascending order of their tags.
    pub(super) tagged: Vec<FieldPlan>,
    pub(super) absent: Vec<AbsentField>,
}

/// A struct as `ottla.protocol.codec.StructPlan` describes it.
#[derive(FromPyObject)]
struct StructDescription<'py> {
    struct_class: Bound<'py, PyType>,
    fields: Vec<FieldDescription<'py>>,
}

/// A field as `ottla.protocol.codec.FieldPlan` describes it.
#[derive(FromPyObject)]
struct FieldDescription<'py> {
    name: String,
    type_name: String,
    struct_plan: Option<Bound<'py, PyAny>>,
    is_array: bool,
    is_carried: bool,
    nullable: bool,
    tag: Option<u32>,
    ignorable: bool,
    inflexible: bool,
    default: Bound<'py, PyAny>,
}

impl StructPlan {
    pub(super) fn new(description: &Bound<'_, PyAny>, flexible: bool) -> PyResult<Self> {
        let StructDescription {
            struct_class,
            fields,
        } = description.extract()?;
        let mut plan = Self {
            class: struct_class.clone().unbind(),
            flexible,
            fields: Vec::new(),
            tagged: Vec::new(),
            absent: Vec::new(),
        };
        for field in fields {
            let slot = Slot::new(&struct_class, &field.name)?;
            if !field.is_carried {
                let FieldDescription {
                    name,
                    default,
                    ignorable,
                    ..
                } = field;
                plan.absent.push(AbsentField {
                    name,
                    slot,
                    default: default.unbind(),
                    ignorable,
                });
            } else if field.tag.is_some() {
                plan.tagged.push(FieldPlan::new(field, slot, flexible)?);
            } else {
                plan.fields.push(FieldPlan::new(field, slot, flexible)?);
            }
        }
        plan.tagged.sort_by_key(|field| field.tag);
        Ok(plan)
    }

    /// The fewest bytes that an instance takes: all arrays and strings empty, no tagged fields.
    fn bytes_min(&self) -> usize {
        self.fields.iter().map(FieldPlan::bytes_min).sum::<usize>() + usize::from(self.flexible)
    }
}

impl FieldPlan {
    fn new(description: FieldDescription<'_>, slot: Slot, flexible: bool) -> PyResult<Self> {
        let element = Element::new(&description, flexible)?;
        let compact = flexible && !description.inflexible;
        Ok(Self {
            element_bytes_min: element.bytes_min(compact).max(1),
            name: description.name,
            slot,
            element,
            is_array: description.is_array,
            nullable: description.nullable,
            compact,
            null_marker: if description.tag.is_some() { 0 } else { 0xff },
            tag: description.tag.unwrap_or(0),
            default: description.default.unbind(),
        })
    }

    fn bytes_min(&self) -> usize {
        match &self.element {
            _ if self.is_array => {
                if self.compact {
                    1
                } else {
                    4
                }
            }
            Element::Struct(_) if self.nullable => 1,
            element => element.bytes_min(self.compact),
        }
    }
}

impl Element {
    fn new(description: &FieldDescription<'_>, flexible: bool) -> PyResult<Self> {
        if let Some(plan) = &description.struct_plan {
            return Ok(Self::Struct(StructPlan::new(plan, flexible)?));
        }
        Ok(match description.type_name.as_str() {
            "bool" => Self::Bool,
            "int8" => Self::Int8,
            "int16" => Self::Int16,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint16" => Self::Uint16,
            "uint32" => Self::Uint32,
            "float64" => Self::Float64,
            "uuid" => Self::Uuid,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "records" => Self::Records,
            other => {
                return Err(PyValueError::new_err(format!(
                    "{}: no type is called {other}",
                    description.name
                )));
            }
        })
    }

    fn bytes_min(&self, compact: bool) -> usize {
        match self {
            Self::Bool | Self::Int8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 => 4,
            Self::Int64 | Self::Float64 => 8,
            Self::Uuid => 16,
            Self::String | Self::Bytes | Self::Records if compact => 1,
            Self::String => 2,
            Self::Bytes | Self::Records => 4,
            Self::Struct(plan) => plan.bytes_min(),
        }
    }
}
