package registry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxLine bounds a request and an answer.
const maxLine = 1 << 20

// Process is what answers. Its methods are called on several goroutines.
type Process interface {
	// Record is what the process has now.
	Record() Record
	// Disconnect ends disks, and says whether the process ends with them. When ctx ends
	// it does already.
	Disconnect(ctx context.Context, d Disconnect) (ending bool, err error)
}

// Server is the entry of this process.
type Server struct {
	process  Process
	listener net.Listener
	base     string // path of the files, without their endings
	ctx      context.Context
	cancel   context.CancelFunc
	served   sync.WaitGroup
	outcome  string // of the process, set before ctx ends
}

// Serve makes the entry of this process in a folder.
func Serve(dir string, p Process) (*Server, error) {
	s := &Server{process: p, base: filepath.Join(dir, fmt.Sprintf("connect-%d", os.Getpid()))}
	os.Remove(s.base + ".sock") // of a dead process with the same number
	l, err := net.Listen("unix", s.base+".sock")
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	s.listener = l
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.Update(); err != nil {
		l.Close()
		return nil, err
	}
	s.served.Go(s.accept)
	return s, nil
}

// Update writes the file anew: what the process has is another.
func (s *Server) Update() error {
	b, err := json.Marshal(s.process.Record())
	if err == nil {
		err = os.WriteFile(s.base+".json.new", append(b, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(s.base+".json.new", s.base+".json")
	}
	if err != nil {
		return fmt.Errorf("write what is connected: %w", err)
	}
	return nil
}

// Close removes the entry, and tells those who asked for the end of the process how
// that went. It returns when nobody is being answered any more.
func (s *Server) Close(outcome error) error {
	if outcome != nil {
		s.outcome = outcome.Error()
	}
	err := s.listener.Close()
	s.cancel()
	s.served.Wait()
	return errors.Join(err, os.Remove(s.base+".json"))
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(100 * time.Millisecond) // for want of descriptors
			continue
		}
		s.served.Go(func() { s.answer(c) })
	}
}

// answer serves one connection: one request.
func (s *Server) answer(c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(s.ctx, func() { _ = c.SetDeadline(time.Now().Add(lastWords)) })()
	line, err := bufio.NewReader(io.LimitReader(c, maxLine)).ReadBytes('\n')
	if err != nil {
		return // it only looked whether somebody is here
	}
	var req request
	var resp response
	if err := json.Unmarshal(line, &req); err != nil {
		resp.Error = "request not understood: " + err.Error()
	} else if req.Disconnect != nil {
		if resp.Ending, err = s.process.Disconnect(s.ctx, *req.Disconnect); err != nil {
			resp.Error = err.Error()
		}
		resp.Outcome = resp.Ending
	}
	resp.Record = s.process.Record()
	if !say(c, resp) || !resp.Ending {
		return
	}
	<-s.ctx.Done()
	say(c, response{Error: s.outcome})
}

// lastWords is how long those who are being answered may take when the process ends.
const lastWords = time.Second

// say sends a response, and says whether it could be sent.
func say(c net.Conn, r response) bool {
	b, err := json.Marshal(r)
	if err == nil {
		_, err = c.Write(append(b, '\n'))
	}
	return err == nil
}
