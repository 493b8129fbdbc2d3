package verbs

// WCStatus is the outcome of a work request (ibv_wc_status, same numbers).
type WCStatus uint8

// Completion statuses.
const (
	WCSuccess WCStatus = iota
	// WCLocLenErr: a message did not fit the receive, or a request was too long.
	WCLocLenErr
	WCLocQPOpErr
	WCLocEECOpErr
	// WCLocProtErr: an SGE's key, bounds, domain or rights did not fit.
	WCLocProtErr
	// WCWRFlushErr: the QP went to ERR before the request was executed.
	WCWRFlushErr
	WCMWBindErr
	WCBadRespErr
	WCLocAccessErr
	// WCRemInvReqErr: the peer found the request malformed.
	WCRemInvReqErr
	// WCRemAccessErr: the peer's region did not allow the RDMA READ or WRITE.
	WCRemAccessErr
	// WCRemOpErr: the peer could not do it (no receive posted, receive too small).
	WCRemOpErr
	WCRetryExcErr
	WCRNRRetryExcErr
	WCLocRDDViolErr
	WCRemInvRDReqErr
	WCRemAbortErr
	WCInvEECNErr
	WCInvEECStateErr
	WCFatalErr
	WCRespTimeoutErr
	WCGeneralErr
)

func (s WCStatus) String() string {
	return name([]string{"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR",
		"MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
		"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR",
		"INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR"}, int(s), "WCStatus")
}

// WCOpcode is the kind of a completed work request (ibv_wc_opcode). It is valid
// only for successful completions, as in libibverbs.
type WCOpcode uint8

// Completion opcodes.
const (
	WCSend WCOpcode = iota
	WCRDMAWrite
	WCRDMARead
	WCRecv
)

func (o WCOpcode) String() string {
	return name([]string{"SEND", "RDMA_WRITE", "RDMA_READ", "RECV"}, int(o), "WCOpcode")
}

// WCFlags qualify a completion (ibv_wc_flags).
type WCFlags uint8

// WCWithInv: the message invalidated the local region WC.InvalidatedRKey.
const WCWithInv WCFlags = 1 << 0

// WC is a work completion (ibv_wc).
type WC struct {
	ID     uint64
	Status WCStatus
	Opcode WCOpcode
	Flags  WCFlags
	// ByteLen is the length of a received message or of RDMA READ data.
	ByteLen uint32
	// QPNum is the QP the request was posted to.
	QPNum           uint32
	InvalidatedRKey uint32
	// VendorErr is the provider's own code for an error status, 0 if it has none.
	VendorErr uint32
}
