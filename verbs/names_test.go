package verbs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Protects the numbers and names of libibverbs, which a second provider and logs
// depend on: they are written out here once more.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		got  fmt.Stringer
		want string
	}{
		{WCSuccess, "SUCCESS"}, {WCStatus(1), "LOC_LEN_ERR"}, {WCLocLenErr, "LOC_LEN_ERR"}, {WCStatus(4), "LOC_PROT_ERR"},
		{WCStatus(5), "WR_FLUSH_ERR"}, {WCWRFlushErr, "WR_FLUSH_ERR"}, {WCStatus(9), "REM_INV_REQ_ERR"},
		{WCStatus(10), "REM_ACCESS_ERR"}, {WCRemAccessErr, "REM_ACCESS_ERR"}, {WCStatus(11), "REM_OP_ERR"}, {WCStatus(13), "RNR_RETRY_EXC_ERR"},
		{WCStatus(19), "FATAL_ERR"}, {WCStatus(21), "GENERAL_ERR"}, {WCGeneralErr, "GENERAL_ERR"}, {WCStatus(22), "WCStatus(22)"}, {WCStatus(255), "WCStatus(255)"},
		{QPStateReset, "RESET"}, {QPState(1), "INIT"}, {QPState(2), "RTR"}, {QPState(3), "RTS"}, {QPState(4), "SQD"}, {QPState(5), "SQE"},
		{QPState(6), "ERR"}, {QPStateERR, "ERR"}, {QPState(7), "QPState(7)"},
		{WCSend, "SEND"}, {WCRDMAWrite, "RDMA_WRITE"}, {WCRDMARead, "RDMA_READ"}, {WCRecv, "RECV"}, {WCOpcode(4), "WCOpcode(4)"},
		{WRSend, "SEND"}, {WRSendWithInv, "SEND_WITH_INV"}, {WRRDMAWrite, "RDMA_WRITE"}, {WRRDMARead, "RDMA_READ"}, {WROpcode(4), "WROpcode(4)"},
		{Access(0), ""}, {AccessLocalWrite, "LOCAL_WRITE"}, {Access(2), "REMOTE_WRITE"}, {Access(4), "REMOTE_READ"}, {Access(7), "LOCAL_WRITE|REMOTE_WRITE|REMOTE_READ"},
	} {
		if got := tt.got.String(); got != tt.want {
			t.Errorf("%T %d is %q, want %q", tt.got, tt.got, got, tt.want)
		}
	}
	for s := WCSuccess; s <= WCGeneralErr; s++ {
		if n := s.String(); n == "" || strings.HasPrefix(n, "WCStatus") {
			t.Errorf("status %d has no name", s)
		}
	}
}

// Protects the rule of ibv_reg_mr: remote write only with local write.
func TestAccessValid(t *testing.T) {
	want := map[Access]bool{0: true, 1: true, 2: false, 3: true, 4: true, 5: true, 6: false, 7: true}
	for a := range Access(64) {
		if got := a.Valid(); got != want[a] {
			t.Errorf("access %#x (%v): valid %v", uint32(a), a, got)
		}
	}
	if Access(1<<31).Valid() || (AccessLocalWrite | 1<<31).Valid() {
		t.Error("an unknown high bit is valid")
	}
}

// Protects callers that decide by the cause of a refused post, and readers of logs.
func TestErrors(t *testing.T) {
	var err error = fmt.Errorf("answer: %w", &PostError{Op: "post send", BadWR: 3, Err: ErrNoMemory})
	if !errors.Is(err, ErrNoMemory) || errors.Is(err, ErrInvalid) {
		t.Errorf("cause of %v is lost", err)
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{err, "answer: post send: work request 3: no room left"},
		{&RejectError{}, "connection rejected by the peer (0 bytes of private data)"},
		{&RejectError{PrivateData: make([]byte, 4)}, "connection rejected by the peer (4 bytes of private data)"},
		{&RejectError{Reason: "markers are not supported"}, "connection rejected: markers are not supported"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
