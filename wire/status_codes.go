package wire

// Generic command status (SCT 0).
const (
	StatusSuccess                  Status = 0x000
	StatusInvalidOpcode            Status = 0x001
	StatusInvalidField             Status = 0x002
	StatusCommandIDConflict        Status = 0x003
	StatusDataTransferError        Status = 0x004
	StatusPowerLossAbort           Status = 0x005
	StatusInternalError            Status = 0x006
	StatusAbortRequested           Status = 0x007
	StatusSQDeleted                Status = 0x008
	StatusFusedFailed              Status = 0x009
	StatusFusedMissing             Status = 0x00A
	StatusInvalidNamespace         Status = 0x00B
	StatusCommandSequenceError     Status = 0x00C
	StatusInvalidSGLSegment        Status = 0x00D
	StatusInvalidSGLCount          Status = 0x00E
	StatusDataSGLLengthInvalid     Status = 0x00F
	StatusMetadataSGLLengthInvalid Status = 0x010
	StatusSGLTypeInvalid           Status = 0x011
	StatusInvalidUseOfCMB          Status = 0x012
	StatusPRPOffsetInvalid         Status = 0x013
	StatusAtomicWriteUnitExceeded  Status = 0x014
	StatusOperationDenied          Status = 0x015
	StatusSGLOffsetInvalid         Status = 0x016
	StatusHostIDInconsistent       Status = 0x018
	StatusKeepAliveExpired         Status = 0x019
	StatusKeepAliveTimeoutInvalid  Status = 0x01A
	StatusPreemptAbort             Status = 0x01B
	StatusSanitizeFailed           Status = 0x01C
	StatusSanitizeInProgress       Status = 0x01D
	StatusSGLGranularityInvalid    Status = 0x01E
	StatusNotSupportedInCMB        Status = 0x01F
	StatusNamespaceWriteProtected  Status = 0x020
	StatusCommandInterrupted       Status = 0x021
	StatusTransientTransportError  Status = 0x022
	StatusLockdownProhibited       Status = 0x023
	StatusAdminMediaNotReady       Status = 0x024
	StatusLBAOutOfRange            Status = 0x080
	StatusCapacityExceeded         Status = 0x081
	StatusNamespaceNotReady        Status = 0x082
	StatusReservationConflict      Status = 0x083
	StatusFormatInProgress         Status = 0x084
)

// Command specific status of admin commands (SCT 1).
const (
	StatusCQInvalid                     Status = 0x100
	StatusQIDInvalid                    Status = 0x101
	StatusQueueSizeInvalid              Status = 0x102
	StatusAbortLimitExceeded            Status = 0x103
	StatusAsyncLimitExceeded            Status = 0x105
	StatusInvalidFirmwareSlot           Status = 0x106
	StatusInvalidFirmwareImage          Status = 0x107
	StatusInvalidInterruptVector        Status = 0x108
	StatusInvalidLogPage                Status = 0x109
	StatusInvalidFormat                 Status = 0x10A
	StatusFirmwareNeedsReset            Status = 0x10B
	StatusInvalidQueueDeletion          Status = 0x10C
	StatusFeatureNotSaveable            Status = 0x10D
	StatusFeatureNotChangeable          Status = 0x10E
	StatusFeatureNotPerNamespace        Status = 0x10F
	StatusOverlappingRange              Status = 0x114
	StatusNamespaceInsufficientCapacity Status = 0x115
	StatusNamespaceIDUnavailable        Status = 0x116
	StatusNamespaceAlreadyAttached      Status = 0x118
	StatusNamespaceIsPrivate            Status = 0x119
	StatusNamespaceNotAttached          Status = 0x11A
	StatusThinProvisioningUnsupported   Status = 0x11B
	StatusControllerListInvalid         Status = 0x11C
	StatusSelfTestInProgress            Status = 0x11D
	StatusInvalidControllerID           Status = 0x11F
	StatusANAGroupIDInvalid             Status = 0x124
	StatusANAAttachFailed               Status = 0x125
	StatusInsufficientCapacity          Status = 0x126
	StatusIOCommandSetNotSupported      Status = 0x129
	StatusIOCommandSetNotEnabled        Status = 0x12A
	StatusInvalidIOCommandSet           Status = 0x12C
)

// Command specific status of NVM commands (SCT 1). From 0x180 on, Fabrics commands use the same codes with meanings of their own.
const (
	StatusConflictingAttributes    Status = 0x180
	StatusInvalidProtectionInfo    Status = 0x181
	StatusReadOnlyRange            Status = 0x182
	StatusCommandSizeLimitExceeded Status = 0x183
)

// Command specific status of Fabrics commands (SCT 1).
const (
	StatusConnectIncompatibleFormat Status = 0x180
	StatusConnectControllerBusy     Status = 0x181
	StatusConnectInvalidParameters  Status = 0x182
	StatusConnectRestartDiscovery   Status = 0x183
	StatusConnectInvalidHost        Status = 0x184
	StatusInvalidQueueType          Status = 0x185
	StatusDiscoverRestart           Status = 0x190
	StatusAuthenticationRequired    Status = 0x191
)

// Media and data integrity errors (SCT 2).
const (
	StatusWriteFault           Status = 0x280
	StatusUnrecoveredRead      Status = 0x281
	StatusGuardCheckError      Status = 0x282
	StatusAppTagCheckError     Status = 0x283
	StatusRefTagCheckError     Status = 0x284
	StatusCompareFailure       Status = 0x285
	StatusAccessDenied         Status = 0x286
	StatusDeallocated          Status = 0x287
	StatusStorageTagCheckError Status = 0x288
)

// Path related status (SCT 3).
const (
	StatusInternalPathError   Status = 0x300
	StatusANAPersistentLoss   Status = 0x301
	StatusANAInaccessible     Status = 0x302
	StatusANATransition       Status = 0x303
	StatusControllerPathError Status = 0x360
	StatusHostPathError       Status = 0x370
	StatusHostAborted         Status = 0x371
)

// text gives the words of a status code outside of the Fabrics command set, or "" for one without a name.
func (s Status) text() string {
	switch s.Code() {
	case StatusSuccess:
		return "success"
	case StatusInvalidOpcode:
		return "invalid command opcode"
	case StatusInvalidField:
		return "invalid field in command"
	case StatusCommandIDConflict:
		return "command identifier conflict"
	case StatusDataTransferError:
		return "data transfer error"
	case StatusPowerLossAbort:
		return "command aborted by power loss notification"
	case StatusInternalError:
		return "internal error"
	case StatusAbortRequested:
		return "command abort requested"
	case StatusSQDeleted:
		return "command aborted by submission queue deletion"
	case StatusFusedFailed:
		return "command aborted by failed fused command"
	case StatusFusedMissing:
		return "command aborted by missing fused command"
	case StatusInvalidNamespace:
		return "invalid namespace or format"
	case StatusCommandSequenceError:
		return "command sequence error"
	case StatusInvalidSGLSegment:
		return "invalid SGL segment descriptor"
	case StatusInvalidSGLCount:
		return "invalid number of SGL descriptors"
	case StatusDataSGLLengthInvalid:
		return "data SGL length invalid"
	case StatusMetadataSGLLengthInvalid:
		return "metadata SGL length invalid"
	case StatusSGLTypeInvalid:
		return "SGL descriptor type invalid"
	case StatusInvalidUseOfCMB:
		return "invalid use of controller memory buffer"
	case StatusPRPOffsetInvalid:
		return "PRP offset invalid"
	case StatusAtomicWriteUnitExceeded:
		return "atomic write unit exceeded"
	case StatusOperationDenied:
		return "operation denied"
	case StatusSGLOffsetInvalid:
		return "SGL offset invalid"
	case StatusHostIDInconsistent:
		return "host identifier inconsistent format"
	case StatusKeepAliveExpired:
		return "keep alive timer expired"
	case StatusKeepAliveTimeoutInvalid:
		return "keep alive timeout invalid"
	case StatusPreemptAbort:
		return "command aborted by preempt and abort"
	case StatusSanitizeFailed:
		return "sanitize failed"
	case StatusSanitizeInProgress:
		return "sanitize in progress"
	case StatusSGLGranularityInvalid:
		return "SGL data block granularity invalid"
	case StatusNotSupportedInCMB:
		return "command not supported for queue in controller memory buffer"
	case StatusNamespaceWriteProtected:
		return "namespace is write protected"
	case StatusCommandInterrupted:
		return "command interrupted"
	case StatusTransientTransportError:
		return "transient transport error"
	case StatusLockdownProhibited:
		return "command prohibited by command and feature lockdown"
	case StatusAdminMediaNotReady:
		return "admin command media not ready"
	case StatusLBAOutOfRange:
		return "LBA out of range"
	case StatusCapacityExceeded:
		return "capacity exceeded"
	case StatusNamespaceNotReady:
		return "namespace not ready"
	case StatusReservationConflict:
		return "reservation conflict"
	case StatusFormatInProgress:
		return "format in progress"
	case StatusCQInvalid:
		return "completion queue invalid"
	case StatusQIDInvalid:
		return "invalid queue identifier"
	case StatusQueueSizeInvalid:
		return "invalid queue size"
	case StatusAbortLimitExceeded:
		return "abort command limit exceeded"
	case StatusAsyncLimitExceeded:
		return "asynchronous event request limit exceeded"
	case StatusInvalidFirmwareSlot:
		return "invalid firmware slot"
	case StatusInvalidFirmwareImage:
		return "invalid firmware image"
	case StatusInvalidInterruptVector:
		return "invalid interrupt vector"
	case StatusInvalidLogPage:
		return "invalid log page"
	case StatusInvalidFormat:
		return "invalid format"
	case StatusFirmwareNeedsReset:
		return "firmware activation requires conventional reset"
	case StatusInvalidQueueDeletion:
		return "invalid queue deletion"
	case StatusFeatureNotSaveable:
		return "feature identifier not saveable"
	case StatusFeatureNotChangeable:
		return "feature not changeable"
	case StatusFeatureNotPerNamespace:
		return "feature not namespace specific"
	case StatusOverlappingRange:
		return "overlapping range"
	case StatusNamespaceInsufficientCapacity:
		return "namespace insufficient capacity"
	case StatusNamespaceIDUnavailable:
		return "namespace identifier unavailable"
	case StatusNamespaceAlreadyAttached:
		return "namespace already attached"
	case StatusNamespaceIsPrivate:
		return "namespace is private"
	case StatusNamespaceNotAttached:
		return "namespace not attached"
	case StatusThinProvisioningUnsupported:
		return "thin provisioning not supported"
	case StatusControllerListInvalid:
		return "controller list invalid"
	case StatusSelfTestInProgress:
		return "device self-test in progress"
	case StatusInvalidControllerID:
		return "invalid controller identifier"
	case StatusANAGroupIDInvalid:
		return "ANA group identifier invalid"
	case StatusANAAttachFailed:
		return "ANA attach failed"
	case StatusInsufficientCapacity:
		return "insufficient capacity"
	case StatusIOCommandSetNotSupported:
		return "i/o command set not supported"
	case StatusIOCommandSetNotEnabled:
		return "i/o command set not enabled"
	case StatusInvalidIOCommandSet:
		return "invalid i/o command set"
	case StatusConflictingAttributes:
		return "conflicting attributes"
	case StatusInvalidProtectionInfo:
		return "invalid protection information"
	case StatusReadOnlyRange:
		return "attempted write to read only range"
	case StatusCommandSizeLimitExceeded:
		return "command size limit exceeded"
	case StatusWriteFault:
		return "write fault"
	case StatusUnrecoveredRead:
		return "unrecovered read error"
	case StatusGuardCheckError:
		return "end-to-end guard check error"
	case StatusAppTagCheckError:
		return "end-to-end application tag check error"
	case StatusRefTagCheckError:
		return "end-to-end reference tag check error"
	case StatusCompareFailure:
		return "compare failure"
	case StatusAccessDenied:
		return "access denied"
	case StatusDeallocated:
		return "deallocated or unwritten logical block"
	case StatusStorageTagCheckError:
		return "end-to-end storage tag check error"
	case StatusInternalPathError:
		return "internal path error"
	case StatusANAPersistentLoss:
		return "asymmetric access persistent loss"
	case StatusANAInaccessible:
		return "asymmetric access inaccessible"
	case StatusANATransition:
		return "asymmetric access transition"
	case StatusControllerPathError:
		return "controller pathing error"
	case StatusHostPathError:
		return "host pathing error"
	case StatusHostAborted:
		return "command aborted by host"
	}
	return ""
}

// fabricsText gives the words that a code has as the answer to a Fabrics command only, or "".
func (s Status) fabricsText() string {
	switch s.Code() {
	case StatusConnectIncompatibleFormat:
		return "connect incompatible format"
	case StatusConnectControllerBusy:
		return "connect controller busy"
	case StatusConnectInvalidParameters:
		return "connect invalid parameters"
	case StatusConnectRestartDiscovery:
		return "connect restart discovery"
	case StatusConnectInvalidHost:
		return "connect invalid host"
	case StatusInvalidQueueType:
		return "invalid queue type"
	case StatusDiscoverRestart:
		return "discover restart"
	case StatusAuthenticationRequired:
		return "authentication required"
	}
	return ""
}
