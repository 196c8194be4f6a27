"""Makes the tiny models of tests/cases/models that start with x_: features the others lack. Expected
logits come from the numpy reference forward pass, in float64, on exactly dequantised weights. The
seeds were chosen so that no step is a near tie. Run in tests/cases/models: python make/make_x.py"""
import sys, json, hashlib
sys.path.insert(0,'../quant')
import numpy as np, quants, refmodel, loadgguf
from ggufw import Gguf, U32, F32, STR, I32, BOOL
def make(name, arch, n_layer, n_embd, n_head, n_kv, hd, n_ff, types, seed, extra=None, bias=False, tied=False, rope_freqs=False, n_rot=None, base=10000.0, V=69, ctx=512, out_extra=None):
    rng=np.random.default_rng(seed)
    g=Gguf(); kv=lambda k,t,v: g.kv(k,t,v)
    a=arch
    g.kv('general.architecture',STR,a); g.kv('general.name',STR,'tiny '+name)
    for k,v in (('block_count',n_layer),('context_length',ctx),('embedding_length',n_embd),('feed_forward_length',n_ff),('attention.head_count',n_head),('attention.head_count_kv',n_kv),('attention.key_length',hd),('attention.value_length',hd),('rope.dimension_count',n_rot or hd)):
        g.kv(f'{a}.{k}',U32,v)
    g.kv(f'{a}.attention.layer_norm_rms_epsilon',F32,1e-6); g.kv(f'{a}.rope.freq_base',F32,base)
    for k,t,v in (extra or []): g.kv(k.replace('ARCH',a),t,v)
    toks=[chr(33+i) for i in range(V-1)]+['<|end|>']
    types_=[1]*(V-1)+[3]
    g.kv('tokenizer.ggml.model',STR,'gpt2'); g.kv('tokenizer.ggml.pre',STR,'default')
    g.arr('tokenizer.ggml.tokens',STR,toks); g.arr('tokenizer.ggml.token_type',I32,types_); g.arr('tokenizer.ggml.merges',STR,[])
    g.kv('tokenizer.ggml.eos_token_id',U32,V-1); g.kv('tokenizer.ggml.add_bos_token',BOOL,False)
    def T(n,o,i,std=None):
        ty=types.get(n.split('.')[-2] if n.startswith('blk') else n.split('.')[0], types['*'])
        blk={'F32':1,'F16':1,'BF16':1}.get(ty, 32 if ty[-1] in '01' else 256)
        if i%blk: ty='F16'
        g.tensor(n,[i,o],ty,quants.blocks(ty,o*i,rng,std or 1/np.sqrt(i)))
    def N(n,l,m=1.0,s=.2): g.tensor(n,[l],'F32',(m+s*rng.standard_normal(l)).astype('<f4').tobytes())
    T('token_embd.weight',V,n_embd,1.0)
    if rope_freqs: g.tensor('rope_freqs.weight',[(n_rot or hd)//2],'F32',np.linspace(1,6,(n_rot or hd)//2).astype('<f4').tobytes())
    for i in range(n_layer):
        p=f'blk.{i}.'
        N(p+'attn_norm.weight',n_embd)
        T(p+'attn_q.weight',n_head*hd,n_embd,2/np.sqrt(n_embd)); T(p+'attn_k.weight',n_kv*hd,n_embd,2/np.sqrt(n_embd)); T(p+'attn_v.weight',n_kv*hd,n_embd)
        if bias:
            for c,l in (('q',n_head*hd),('k',n_kv*hd),('v',n_kv*hd)): N(p+f'attn_{c}.bias',l,0,.5)
        if arch in('qwen3','gemma3'): N(p+'attn_q_norm.weight',hd,1.5); N(p+'attn_k_norm.weight',hd,1.5)
        T(p+'attn_output.weight',n_embd,n_head*hd)
        if arch=='gemma3': N(p+'post_attention_norm.weight',n_embd)
        N(p+'ffn_norm.weight',n_embd)
        T(p+'ffn_gate.weight',n_ff,n_embd); T(p+'ffn_up.weight',n_ff,n_embd); T(p+'ffn_down.weight',n_embd,n_ff)
        if arch=='gemma3': N(p+'post_ffw_norm.weight',n_embd)
    N('output_norm.weight',n_embd,1.5)
    if not tied: T('output.weight',V,n_embd,2/np.sqrt(n_embd))
    b=g.build(); f=f'x_{name}.gguf'; open(f,'wb').write(b)
    kvs,W,t=loadgguf.read(f); cfg=loadgguf.config(kvs,W)
    n=40; tokens=[int(x) for x in rng.integers(0,V-1,n)]
    lg=refmodel.forward(cfg,W,tokens)
    gr,gaps=refmodel.greedy(cfg,W,tokens,12)
    if min(gaps)<.05: print(name,'near tie',min(gaps))
    json.dump({'model':f,'tokens':tokens,'logits':{str(i):[float(np.float32(x)) for x in lg[i]] for i in (0,n//2,n-1)},'argmax_every_position':[int(r.argmax()) for r in lg],'greedy':gr,'tolerance':{'strict':max(.01,float(np.abs(lg[-1]).max())*.004)}},open(f'x_{name}.json','w'))
    top=np.sort(lg,1); print(name,len(b),'max',float(np.abs(lg[-1]).max()),'min gap',float((top[:,-1]-top[:,-2]).min()), cfg)
S=lambda k,t,v:(k,t,v)
make('llama3_rope','llama',2,96,6,2,16,64,{'*':'Q8_0','attn_v':'Q6_K','ffn_up':'Q4_0','token_embd':'Q5_1','output':'F16'},11,rope_freqs=True,base=500000.0)
make('llama_bias_linear','llama',2,64,4,4,16,96,{'*':'Q4_1','attn_k':'Q5_0','ffn_gate':'BF16'},12,bias=True,extra=[('ARCH.rope.scaling.type',STR,'linear'),('ARCH.rope.scaling.factor',F32,4.0)],tied=True)
make('llama_partial_rope','llama',2,48,5,1,24,40,{'*':'F16'},41,n_rot=12)
make('qwen2_tied_mha','qwen2',1,256,4,4,32,256,{'*':'Q4_K','attn_v':'Q6_K','ffn_down':'Q3_K','token_embd':'Q6_K'},14,bias=True,tied=True,base=1e6)
make('qwen3_wide_gqa','qwen3',2,64,16,2,48,64,{'*':'Q5_0','ffn_up':'Q8_0'},15,tied=True,base=1e6)
make('gemma3_scaled','gemma3',7,32,2,1,72,64,{'*':'Q8_0','attn_k':'Q5_1','token_embd':'F16'},21,tied=True,base=1e6,extra=[('ARCH.attention.sliding_window',U32,5),('ARCH.rope.scaling.type',STR,'linear'),('ARCH.rope.scaling.factor',F32,8.0),('ARCH.final_logit_softcapping',F32,12.0)])
