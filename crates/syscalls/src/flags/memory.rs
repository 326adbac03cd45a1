//! Mappings and memory policies.

use super::{names, with_field};
use crate::flag_set::FlagSet;

/// Protection of memory.
#[rustfmt::skip]
pub static PROT: FlagSet = names("PROT_", &[
    (0, "PROT_NONE"), (0x1, "PROT_READ"), (0x2, "PROT_WRITE"), (0x4, "PROT_EXEC"),
    (0x8, "PROT_SEM"), (0x1000000, "PROT_GROWSDOWN"), (0x2000000, "PROT_GROWSUP"),
]);

/// Flags of mmap; the lowest four bits hold the type.
#[rustfmt::skip]
pub static MAP: FlagSet = with_field("MAP_", 0xf, &[
    (0, "MAP_FILE"), (0x1, "MAP_SHARED"), (0x2, "MAP_PRIVATE"), (0x3, "MAP_SHARED_VALIDATE"),
    (0x8, "MAP_DROPPABLE"), (0x10, "MAP_FIXED"), (0x20, "MAP_ANONYMOUS"), (0x40, "MAP_32BIT"),
    (0x80, "MAP_ABOVE4G"), (0x4000, "MAP_NORESERVE"), (0x8000, "MAP_POPULATE"),
    (0x10000, "MAP_NONBLOCK"), (0x100, "MAP_GROWSDOWN"), (0x800, "MAP_DENYWRITE"),
    (0x1000, "MAP_EXECUTABLE"), (0x2000, "MAP_LOCKED"), (0x20000, "MAP_STACK"),
    (0x40000, "MAP_HUGETLB"), (0x80000, "MAP_SYNC"), (0x100000, "MAP_FIXED_NOREPLACE"),
    (0x88000000, "MAP_HUGE_16GB"), (0x7c000000, "MAP_HUGE_2GB"), (0x78000000, "MAP_HUGE_1GB"),
    (0x74000000, "MAP_HUGE_512MB"), (0x70000000, "MAP_HUGE_256MB"), (0x64000000, "MAP_HUGE_32MB"),
    (0x60000000, "MAP_HUGE_16MB"), (0x5c000000, "MAP_HUGE_8MB"), (0x54000000, "MAP_HUGE_2MB"),
    (0x50000000, "MAP_HUGE_1MB"), (0x4c000000, "MAP_HUGE_512KB"), (0x40000000, "MAP_HUGE_64KB"),
]);

/// Flags of mremap.
#[rustfmt::skip]
pub static MREMAP: FlagSet = names("MREMAP_", &[
    (0x1, "MREMAP_MAYMOVE"), (0x2, "MREMAP_FIXED"), (0x4, "MREMAP_DONTUNMAP"),
]);

/// Flags of msync.
#[rustfmt::skip]
pub static MSYNC: FlagSet = names("MS_", &[
    (0x4, "MS_SYNC"), (0x1, "MS_ASYNC"), (0x2, "MS_INVALIDATE"),
]);

/// Advice of madvise.
#[rustfmt::skip]
pub static MADVISE: FlagSet = names("MADV_", &[
    (0, "MADV_NORMAL"), (1, "MADV_RANDOM"), (2, "MADV_SEQUENTIAL"), (3, "MADV_WILLNEED"),
    (4, "MADV_DONTNEED"), (8, "MADV_FREE"), (9, "MADV_REMOVE"), (10, "MADV_DONTFORK"),
    (11, "MADV_DOFORK"), (12, "MADV_MERGEABLE"), (13, "MADV_UNMERGEABLE"), (14, "MADV_HUGEPAGE"),
    (15, "MADV_NOHUGEPAGE"), (16, "MADV_DONTDUMP"), (17, "MADV_DODUMP"), (18, "MADV_WIPEONFORK"),
    (19, "MADV_KEEPONFORK"), (20, "MADV_COLD"), (21, "MADV_PAGEOUT"), (22, "MADV_POPULATE_READ"),
    (23, "MADV_POPULATE_WRITE"), (24, "MADV_DONTNEED_LOCKED"), (25, "MADV_COLLAPSE"),
    (100, "MADV_HWPOISON"), (101, "MADV_SOFT_OFFLINE"), (102, "MADV_GUARD_INSTALL"),
    (103, "MADV_GUARD_REMOVE"),
]);

/// Flags of mlockall.
#[rustfmt::skip]
pub static MCL: FlagSet = names("MCL_", &[
    (0x1, "MCL_CURRENT"), (0x2, "MCL_FUTURE"), (0x4, "MCL_ONFAULT"),
]);

/// Flags of mlock2.
#[rustfmt::skip]
pub static MLOCK: FlagSet = names("MLOCK_", &[
    (0x1, "MLOCK_ONFAULT"),
]);

/// Flags of memfd_create.
#[rustfmt::skip]
pub static MFD: FlagSet = names("MFD_", &[
    (0x1, "MFD_CLOEXEC"), (0x2, "MFD_ALLOW_SEALING"), (0x4, "MFD_HUGETLB"),
    (0x8, "MFD_NOEXEC_SEAL"), (0x10, "MFD_EXEC"), (0x88000000, "MFD_HUGE_16GB"),
    (0x7c000000, "MFD_HUGE_2GB"), (0x78000000, "MFD_HUGE_1GB"), (0x74000000, "MFD_HUGE_512MB"),
    (0x70000000, "MFD_HUGE_256MB"), (0x64000000, "MFD_HUGE_32MB"), (0x60000000, "MFD_HUGE_16MB"),
    (0x5c000000, "MFD_HUGE_8MB"), (0x54000000, "MFD_HUGE_2MB"), (0x50000000, "MFD_HUGE_1MB"),
    (0x4c000000, "MFD_HUGE_512KB"), (0x40000000, "MFD_HUGE_64KB"),
]);

/// Rights of a protection key.
#[rustfmt::skip]
pub static PKEY: FlagSet = names("PKEY_", &[
    (0x1, "PKEY_DISABLE_ACCESS"), (0x2, "PKEY_DISABLE_WRITE"),
]);

/// Flags of map_shadow_stack.
#[rustfmt::skip]
pub static SHADOW_STACK: FlagSet = names("SHADOW_STACK_", &[
    (0x1, "SHADOW_STACK_SET_TOKEN"), (0x2, "SHADOW_STACK_SET_MARKER"),
]);

/// Flags of userfaultfd.
#[rustfmt::skip]
pub static USERFAULTFD: FlagSet = names("UFFD_", &[
    (0o1, "UFFD_USER_MODE_ONLY"), (0o4000, "O_NONBLOCK"), (0o2000000, "O_CLOEXEC"),
]);

/// Features of userfaultfd.
#[rustfmt::skip]
pub static UFFD_FEATURE: FlagSet = names("UFFD_FEATURE_", &[
    (0x1, "UFFD_FEATURE_PAGEFAULT_FLAG_WP"), (0x2, "UFFD_FEATURE_EVENT_FORK"),
    (0x4, "UFFD_FEATURE_EVENT_REMAP"), (0x8, "UFFD_FEATURE_EVENT_REMOVE"),
    (0x10, "UFFD_FEATURE_MISSING_HUGETLBFS"), (0x20, "UFFD_FEATURE_MISSING_SHMEM"),
    (0x40, "UFFD_FEATURE_EVENT_UNMAP"), (0x80, "UFFD_FEATURE_SIGBUS"),
    (0x100, "UFFD_FEATURE_THREAD_ID"), (0x200, "UFFD_FEATURE_MINOR_HUGETLBFS"),
    (0x400, "UFFD_FEATURE_MINOR_SHMEM"), (0x800, "UFFD_FEATURE_EXACT_ADDRESS"),
    (0x1000, "UFFD_FEATURE_WP_HUGETLBFS_SHMEM"), (0x2000, "UFFD_FEATURE_WP_UNPOPULATED"),
    (0x4000, "UFFD_FEATURE_POISON"), (0x8000, "UFFD_FEATURE_WP_ASYNC"),
    (0x10000, "UFFD_FEATURE_MOVE"),
]);

/// How a range is registered with userfaultfd.
#[rustfmt::skip]
pub static UFFDIO_REGISTER: FlagSet = names("UFFDIO_REGISTER_MODE_", &[
    (0x1, "UFFDIO_REGISTER_MODE_MISSING"), (0x2, "UFFDIO_REGISTER_MODE_WP"),
    (0x4, "UFFDIO_REGISTER_MODE_MINOR"),
]);

/// Memory policies; the flags of a policy stand in the high bits.
#[rustfmt::skip]
pub static MPOL: FlagSet = with_field("MPOL_", 0xff, &[
    (0, "MPOL_DEFAULT"), (0x1, "MPOL_PREFERRED"), (0x2, "MPOL_BIND"), (0x3, "MPOL_INTERLEAVE"),
    (0x4, "MPOL_LOCAL"), (0x5, "MPOL_PREFERRED_MANY"), (0x6, "MPOL_WEIGHTED_INTERLEAVE"),
    (0x8000, "MPOL_F_STATIC_NODES"), (0x4000, "MPOL_F_RELATIVE_NODES"),
    (0x2000, "MPOL_F_NUMA_BALANCING"),
]);

/// Flags of get_mempolicy.
#[rustfmt::skip]
pub static MPOL_F: FlagSet = names("MPOL_F_", &[
    (0x1, "MPOL_F_NODE"), (0x2, "MPOL_F_ADDR"), (0x4, "MPOL_F_MEMS_ALLOWED"),
]);

/// Flags of mbind and move_pages.
#[rustfmt::skip]
pub static MPOL_MF: FlagSet = names("MPOL_MF_", &[
    (0x1, "MPOL_MF_STRICT"), (0x2, "MPOL_MF_MOVE"), (0x4, "MPOL_MF_MOVE_ALL"),
]);

/// Operations of arch_prctl.
#[rustfmt::skip]
pub static ARCH: FlagSet = names("ARCH_", &[
    (0x1001, "ARCH_SET_GS"), (0x1002, "ARCH_SET_FS"), (0x1003, "ARCH_GET_FS"),
    (0x1004, "ARCH_GET_GS"), (0x1011, "ARCH_GET_CPUID"), (0x1012, "ARCH_SET_CPUID"),
    (0x1021, "ARCH_GET_XCOMP_SUPP"), (0x1022, "ARCH_GET_XCOMP_PERM"),
    (0x1023, "ARCH_REQ_XCOMP_PERM"), (0x1024, "ARCH_GET_XCOMP_GUEST_PERM"),
    (0x1025, "ARCH_REQ_XCOMP_GUEST_PERM"), (0x2001, "ARCH_MAP_VDSO_X32"),
    (0x2002, "ARCH_MAP_VDSO_32"), (0x2003, "ARCH_MAP_VDSO_64"), (0x4001, "ARCH_GET_UNTAG_MASK"),
    (0x4002, "ARCH_ENABLE_TAGGED_ADDR"), (0x4003, "ARCH_GET_MAX_TAG_BITS"),
    (0x4004, "ARCH_FORCE_TAGGED_SVA"), (0x5001, "ARCH_SHSTK_ENABLE"),
    (0x5002, "ARCH_SHSTK_DISABLE"), (0x5003, "ARCH_SHSTK_LOCK"), (0x5004, "ARCH_SHSTK_UNLOCK"),
    (0x5005, "ARCH_SHSTK_STATUS"),
]);
