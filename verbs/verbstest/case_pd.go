package verbstest

import (
	"testing"

	"rbd/verbs"
)

var pdCases = []Case{
	{"PDDealloc", testPDDealloc},
	{"PDBusyWithMR", testPDBusyWithMR},
	{"PDBusyWithQP", testPDBusyWithQP},
}

// Protects the end of a domain's life: nothing can be made in it afterwards.
func testPDDealloc(t *testing.T, e *Env) {
	pd, err := e.Device.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	if err := pd.Dealloc(); err != nil {
		t.Fatalf("deallocate an unused PD: %v", err)
	}
	e.WantErr("deallocate it again", pd.Dealloc(), verbs.ErrClosed)
	mem, err := verbs.AllocMemory(4096)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pd.RegMR(mem, verbs.AccessLocalWrite)
	e.WantErr("register memory in it", err, verbs.ErrClosed)
	if err := verbs.FreeMemory(mem); err != nil {
		t.Error(err)
	}
}

// Protects regions from losing their domain.
func testPDBusyWithMR(t *testing.T, e *Env) {
	pd := e.PD()
	a, b := e.Region(pd, 4096, 0), e.Region(pd, 4096, 0)
	e.WantErr("deallocate with two MRs", pd.Dealloc(), verbs.ErrBusy)
	e.Destroy("MR", a.MR.Dereg)
	e.WantErr("deallocate with one MR", pd.Dealloc(), verbs.ErrBusy)
	e.Destroy("MR", b.MR.Dereg)
	if err := pd.Dealloc(); err != nil {
		t.Errorf("deallocate when the MRs are gone: %v", err)
	}
}

// Protects QPs from losing their domain.
func testPDBusyWithQP(t *testing.T, e *Env) {
	s := e.Active(e.Listen().Addr(), nil)
	e.WantErr("deallocate with a QP", s.PD.Dealloc(), verbs.ErrBusy)
	e.Destroy("QP", s.QP.Destroy)
	if err := s.PD.Dealloc(); err != nil {
		t.Errorf("deallocate when the QP is gone: %v", err)
	}
}
