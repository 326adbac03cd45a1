//! What the machine calls the devices that events of the kernel name by number.

use std::collections::HashMap;

use trace::event::{FieldValue, OtherEvent};
use trace::event_table::EventRow;
use trace::format::event_number;

use crate::kernel_tasks::Fields;

/// Bits of a device's number that tell minors apart, as the kernel itself numbers devices.
const MINOR_BITS: u32 = 20;
/// Devices whose names are kept.
const DEVICES_MAX: usize = 1 << 12;
/// Bytes of a name; the kernel has 31.
const NAME_BYTES_MAX: usize = 64;

/// A device, as /proc has shown it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelDevice {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Its name, as in /dev.
    pub name: Vec<u8>,
}

impl KernelDevice {
    /// What an event says, if it is of this kind.
    pub fn of(event: &OtherEvent) -> Option<KernelDevice> {
        let mut fields = Fields::of(event, event_number::KERNEL_DEVICE)?;
        Some(KernelDevice { major: fields.small(), minor: fields.small(), name: fields.bytes() })
    }

    /// The event that says it.
    pub fn event(&self, row: &'static EventRow) -> OtherEvent {
        let number = |number: u32| FieldValue::Unsigned(number.into());
        let name = FieldValue::Bytes(self.name.clone());
        OtherEvent { row, values: vec![number(self.major), number(self.minor), name] }
    }
}

/// Major and minor of a number that the kernel gives to a device.
pub fn major_minor(device: u64) -> (u64, u64) {
    (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1))
}

/// The devices that a trace has told of so far.
#[derive(Debug, Default)]
pub struct KernelDevices(HashMap<(u64, u64), Vec<u8>>);

impl KernelDevices {
    /// Takes what the recorder says of a device.
    pub fn told(&mut self, event: &OtherEvent) {
        let Some(KernelDevice { major, minor, name }) = KernelDevice::of(event) else { return };
        let key = (major.into(), minor.into());
        if self.0.len() < DEVICES_MAX || self.0.contains_key(&key) {
            self.0.insert(key, name[..name.len().min(NAME_BYTES_MAX)].to_vec());
        }
    }

    /// The name of a device, by the number that events have.
    pub fn name(&self, device: u64) -> Option<&[u8]> {
        self.0.get(&major_minor(device)).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use trace::event_table::row_of;

    use super::*;

    #[test]
    fn devices_have_names() {
        let row = row_of(event_number::KERNEL_DEVICE).unwrap();
        let disk = KernelDevice { major: 254, minor: 1, name: b"vda1".to_vec() };
        assert_eq!(KernelDevice::of(&disk.event(row)).as_ref(), Some(&disk));
        let mut devices = KernelDevices::default();
        devices.told(&disk.event(row));
        assert_eq!(devices.name(254 << 20 | 1), Some(&b"vda1"[..]));
        assert_eq!(devices.name(254 << 20), None);
    }
}
