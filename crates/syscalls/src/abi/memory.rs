//! Numbers in calls that map memory.

/// The memory can be written.
pub const PROT_WRITE: u64 = 2;
/// The memory can be executed.
pub const PROT_EXEC: u64 = 4;
/// Bits with the type of a mapping.
pub const MAP_TYPE: u64 = 0xf;
/// Stores reach the file.
pub const MAP_SHARED: u64 = 1;
/// Stores reach the file; unknown flags are errors.
pub const MAP_SHARED_VALIDATE: u64 = 3;
/// Of shmat: the memory can be read only.
pub const SHM_RDONLY: u32 = 0o10_000;
/// Of shmat: the memory can be executed.
pub const SHM_EXEC: i32 = 0o100_000;
/// Request of ioctl on a list of mappings: the mapping of an address.
pub const PROCMAP_QUERY: u64 = 0xc068_6611;
/// No file.
pub const MAP_ANONYMOUS: u64 = 0x20;
/// What the dynamic linker maps programs and libraries with.
pub const MAP_DENYWRITE: u64 = 0x800;
/// The mapping is placed at the address, over what is there.
pub const MAP_FIXED: u64 = 0x10;
/// The same, unless something is there.
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
/// Huge pages are wanted.
pub const MAP_HUGETLB: u64 = 0x4_0000;
/// Stores stay in the process.
pub const MAP_PRIVATE: u64 = 2;
/// Flags of userfaultfd: it is closed by an exec, does not block, and handles no faults of the
/// kernel.
pub const USERFAULTFD_FLAGS: u64 = 0o2_000_000 | 0o4000 | 1;
/// What userfaultfd is to do: nothing but to notice the first store to a page, also where none is
/// present.
pub const UFFD_NOTICES: u64 = 1 << 13 | 1 << 15;
/// Version of userfaultfd.
pub const UFFD_API: u64 = 0xaa;
/// Requests of ioctl on a userfaultfd: agree on the version; watch memory.
pub const UFFDIO_API: u64 = 0xc018_aa3f;
/// See [`UFFDIO_API`].
pub const UFFDIO_REGISTER: u64 = 0xc020_aa00;
/// Mode of [`UFFDIO_REGISTER`]: stores.
pub const UFFD_STORES: u64 = 2;
/// Request of ioctl on a page map: which pages were stored to.
pub const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// Flags of [`PAGEMAP_SCAN`]: watch the pages that were found again, and fail where memory is not
/// watched.
pub const PAGEMAP_AGAIN: u64 = 1 | 2;
/// Categories of [`PAGEMAP_SCAN`]: stored to; there.
pub const PAGE_STORED: u64 = 2;
/// Of a file, and no copy of it in private memory.
pub const PAGE_OF_FILE: u64 = 4;
/// See [`PAGE_STORED`].
pub const PAGE_PRESENT: u64 = 8;
/// Kept elsewhere than in memory or the file.
pub const PAGE_SWAPPED: u64 = 16;
/// Flag of mremap: the old mapping stays.
pub const MREMAP_DONTUNMAP: u64 = 4;
/// Flag of mremap: the mapping may be moved.
pub const MREMAP_MAYMOVE: u64 = 1;
/// Flag of mremap: it is moved to the address.
pub const MREMAP_FIXED: u64 = 2;
