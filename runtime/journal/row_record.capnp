# The payload of a journal record; README.md describes the frame around it. New versions only add fields.
@0xaf7094ac98ffc545;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lockstep::journal::wire");

struct Record {
  union {
    job @0 :Job;           # the first record only
    rows @1 :List(Row);    # written together
  }
}

struct Job {
  version @0 :UInt32;
  rows @1 :UInt64;         # of the whole job
  facts @2 :List(Fact);    # must be the same in every start of the job
  notes @3 :List(Fact);    # results of the first start, reused by later ones
}

struct Fact {
  name @0 :Text;
  value @1 :Text;
}

struct Row {
  row @0 :UInt64;          # index in the job
  answers @1 :List(Answer);
  error @2 :Text;          # why this row has no answers, or empty
}

struct Answer {
  tokens @0 :List(Int32);
  text @1 :Text;
  finishReason @2 :Text;
  score :union {
    none @3 :Void;
    value @4 :Float64;
  }
  logprobs @5 :List(Float32);
  likeliest @6 :List(List(TokenLogprob));
}

struct TokenLogprob {
  id @0 :Int32;
  logprob @1 :Float32;
}
