(* Reads programs that dump.py wrote, one after the other, and prints for each what the proved functions say of it. Of
   tensor SSA:

     case NAME cost N dcost N output N adjoint N needed N inputs N touched N all_touched N forward N
     gradient NUMBER ..        one line for each leaf
     tangent NUMBER ..         one line for each output

   the last number and the tangents only where the word "forward" begins the program, not "case".

   cost and dcost are (B)'s terms for the program, output is the size of its output; adjoint is the cost of the
   program with its adjoint, needed that without what no gradient reads, inputs the points of the gradients'
   predicates; forward is the cost of the program with its forward derivative, and the tangents are its values where
   each leaf's differential is the leaf itself; touched are the points that the program executes, all_touched those
   with its adjoint (R).

   Of a program of Figure 3:

     program NAME accepted N cost N compiled N adjoint N inputs N output N
     value NUMBER ..           one line for each leaf of its value
     gradient NUMBER ..        one line for each leaf of its parameters

   A program with conditions on values is the one that it is for the answers to its questions (Conditions.v).
   accepted is 1 if it is well-typed and in bounds, else 0; cost is its own by Figure 6, compiled that of the tensor SSA that the compiler makes of it, adjoint that with its
   adjoint; inputs and output are their sizes.

   Of charges that are carried into others:

     carried NAME done N low N high N

   done is 1 if the steps carry all that is low, low and high are what both sides come to.

   With the argument "functions" it prints the table of scalar functions instead: NAME ARITY COST, and each component of
   the transposed derivative. *)
open Tlssa

(* -- numbers: Coq's integers are strings of bits *)

let rec positive n = if n = 1 then XH else if n land 1 = 1 then XI (positive (n / 2)) else XO (positive (n / 2))
let integer n = if n = 0 then Z0 else if n > 0 then Zpos (positive n) else Zneg (positive (-n))
let ten = integer 10

let integer_of_string s =
  let negative = s.[0] = '-' in
  let digits = if negative then String.sub s 1 (String.length s - 1) else s in
  let add z c = Z.add (Z.mul z ten) (integer (Char.code c - Char.code '0')) in
  let z = Seq.fold_left add Z0 (String.to_seq digits) in
  if negative then Z.opp z else z

let rec to_int = function XH -> 1 | XO p -> 2 * to_int p | XI p -> 2 * to_int p + 1
let small = function Z0 -> 0 | Zpos p -> to_int p | Zneg p -> - (to_int p)

let rec string_of_integer = function
  | Z0 -> "0"
  | Zneg p -> "-" ^ string_of_integer (Zpos p)
  | z ->
      let q, r = Z.div_eucl z ten in
      (if q = Z0 then "" else string_of_integer q) ^ string_of_int (small r)

let zero = { qnum = Z0; qden = XH }
let one = { qnum = Zpos XH; qden = XH }
let add a b = if a.qnum = Z0 then b else if b.qnum = Z0 then a else qred (qplus a b)
let multiply a b = if a.qnum = Z0 || b.qnum = Z0 then zero else qred (qmult a b)
let subtract a b = add a (qopp b)

let rational_of_string s =
  match String.split_on_char '/' s with
  | [n; d] -> (match integer_of_string d with Zpos p -> { qnum = integer_of_string n; qden = p } | _ -> failwith s)
  | _ -> { qnum = integer_of_string s; qden = XH }

let string_of_rational a =
  let { qnum; qden } = qred a in
  string_of_integer qnum ^ "/" ^ string_of_integer (Zpos qden)

(* -- reading *)

let token () = Scanf.scanf " %s" (fun s -> s)
let int () = int_of_string (token ())
let rational () = rational_of_string (token ())
let times n read = let rec go k = if k = 0 then [] else let a = read () in a :: go (k - 1) in go n
let list read = let n = int () in times n read

(* scalar functions: trees over the arguments, the value y and the cotangent t *)
type scalar =
  | Number of q | Argument of int | Value | Cotangent
  | Power of int * scalar | Apply of string * scalar list

let rec scalar () =
  match token () with
  | "number" -> Number (rational ())
  | "argument" -> Argument (int ())
  | "value" -> Value
  | "cotangent" -> Cotangent
  | "power" -> let n = int () in Power (n, scalar ())
  | name -> Apply (name, list scalar)

let rec power x n = if n = 0 then one else multiply x (power x (n - 1))
let where condition a = if condition then a else zero

let apply name arguments =
  match name, arguments with
  | "add", [a; b] -> add a b
  | "subtract", [a; b] -> subtract a b
  | "multiply", [a; b] -> multiply a b
  | "recip", [a] -> qinv a
  | "relu", [a] -> where (qle_bool zero a) a
  | "abs", [a] -> if qle_bool zero a then a else qopp a
  | "sign", [a] -> subtract (where (not (qle_bool a zero)) one) (where (not (qle_bool zero a)) one)
  | "max", [a; b] -> if qle_bool b a then a else b
  | "min", [a; b] -> if qle_bool a b then a else b
  | "where_ge", [a; b; t] -> where (qle_bool b a) t
  | "where_gt", [a; b; t] -> where (not (qle_bool a b)) t
  | _ -> failwith ("no scalar function is called " ^ name)

let rec compute xs value cotangent = function
  | Number c -> c
  | Argument k -> List.nth xs k
  | Value -> value
  | Cotangent -> cotangent
  | Power (n, e) -> power (compute xs value cotangent e) n
  | Apply (name, es) -> apply name (List.map (compute xs value cotangent) es)

type definition = { arity : int; cost : int; body : scalar; components : (int * scalar) array }

let definition () =
  let arity = int () in
  let cost = int () in
  let body = scalar () in
  { arity; cost; body; components = Array.of_list (times arity (fun () -> let c = int () in (c, scalar ()))) }

(* the function symbols of the proofs: a function, or the j-th component of its transposed derivative *)
type symbol = Function of int | Component of int * int

let component f j = match f with Function k -> Component (k, j) | Component _ -> failwith "a derivative of a derivative"

(* a predicate: its points, in place of p(g, i, ..), or everything *)
let predicate width =
  match int () with
  | -1 -> fun _ -> true
  | n ->
      let points = Hashtbl.create (2 * n + 1) in
      for _ = 1 to n do Hashtbl.replace points (times width (fun () -> integer (int ()))) () done;
      Hashtbl.mem points

(* statements, each with the variables before it *)
let statement vars =
  let shape = list int in
  let rank = List.length shape in
  let var () = vars.(int ()) in
  let right_side =
    match token () with
    | "input" -> let k = int () in Input { name = k; shp = shape }
    | "constant" -> Const (rational ())
    | "addition" ->
        Add (list (fun () ->
          let minus = int () < 0 in
          let operand = var () in
          { minus; bracket = predicate rank; operand }))
    | "map" ->
        let f = int () in
        let xs = list var in
        Map (predicate rank, Function f, xs)
    | "sum" ->
        let s = list int in
        let x = var () in
        let p = predicate (rank + List.length x.shp + List.length s) in
        C1 (s, (fun g i z -> p (g @ i @ z)), x)
    | "product" ->
        let s = list int in
        let x0 = var () in
        let x1 = var () in
        let p = predicate (rank + List.length x0.shp + List.length x1.shp + List.length s) in
        C2 (s, (fun g i0 i1 z -> p (g @ i0 @ i1 @ z)), x0, x1)
    | "choice" ->
        let x = var () in
        let p = predicate (List.length x.shp) in
        Choice ((fun g i -> List.filteri (fun k _ -> k < rank) i = g && p i), x)
    | kind -> failwith ("no statement is called " ^ kind)
  in
  (shape, right_side)

let leaf () =
  let shape = list int in
  let values = Hashtbl.create 64 in
  List.iter (fun i -> Hashtbl.replace values i (rational ())) (box shape);
  (shape, values)

(* -- computing *)

(* the values of the first statements of a program, whose list is last first *)
let solve fval inp program =
  let statements = Array.of_list (List.rev program) in
  let tables = Array.map (fun _ -> Hashtbl.create 64) statements in
  let known x i = Hashtbl.find tables.(x.name) i in
  Array.iteri
    (fun k (shape, right_side) ->
      let at = eval zero add multiply qopp fval inp known right_side in
      List.iter (fun i -> Hashtbl.replace tables.(k) i (at i)) (box shape))
    statements;
  known

let value_of functions f arguments =
  match f with
  | Function k -> compute arguments zero zero functions.(k).body
  | Component (k, j) ->
      let xs = List.filteri (fun i _ -> i < functions.(k).arity) arguments in
      let value = List.nth arguments (List.length xs) in
      let cotangent = List.nth arguments (List.length xs + 1) in
      compute xs value cotangent (snd functions.(k).components.(j))

let cost_of functions = function
  | Function k -> integer functions.(k).cost
  | Component (k, j) -> integer (fst functions.(k).components.(j))

let say what number = Printf.printf " %s %d" what (small number)
let print_array what at shape =
  print_endline (String.concat " " (what :: List.map (fun i -> string_of_rational (at i)) (box shape)))

let case forwards =
  let name = token () in
  let functions = Array.of_list (list definition) in
  let leaves = Array.of_list (list leaf) in
  let count = int () in
  let vars = Array.make count { name = -1; shp = [] } in
  let program = ref [] in
  for k = 0 to count - 1 do
    let (shape, _) as s = statement vars in
    vars.(k) <- { name = k; shp = shape };
    program := s :: !program
  done;
  let leaf_var k = { name = k; shp = fst leaves.(k) } in
  let outs = list (fun () -> vars.(int ())) in
  let dys = list (fun () -> leaf_var (int ())) in
  let wrt = list (fun () -> leaf_var (int ())) in
  let fval = value_of functions in
  let fcost = cost_of functions in
  let inp x i = Hashtbl.find (snd leaves.(x.name)) i in
  let program = !program in
  let act = active wrt program in
  let whole, gradients = adjoint component program outs dys wrt in
  let needed = prune (List.map (fun c -> c.lhs) gradients) whole in
  let nothing _ = false in
  Printf.printf "case %s" name;
  say "cost" (program_cost fcost program);
  say "dcost" (dcost component fcost (among act) program);
  say "output" (outsize outs);
  say "adjoint" (program_cost fcost whole);
  say "needed" (program_cost fcost needed);
  say "inputs" (ipcost gradients);
  say "touched" (touch fcost nothing program);
  say "all_touched" (touch fcost nothing whole);
  let both, differential = if forwards then forward component wrt (fun y -> y) program else ([], fun y -> y) in
  if forwards then say "forward" (program_cost fcost both);
  print_newline ();
  let value = solve fval inp needed in
  List.iter (fun c -> print_array "gradient" (value c.lhs) c.tgt.shp) gradients;
  if forwards then
    let value = solve fval inp both in
    List.iter (fun x -> print_array "tangent" (if among act x then value (differential x) else fun _ -> zero) x.shp) outs

(* -- programs of Figure 3 *)

let rec affine () =
  match token () with
  | "index" -> AVar (token ())
  | "number" -> ACst (integer (int ()))
  | "plus" -> let a = affine () in let b = affine () in AAdd (a, b)
  | "times" -> let k = integer (int ()) in AScl (k, affine ())
  | "look" -> let y = token () in ALook (y, list affine)
  | kind -> failwith ("no index is called " ^ kind)

let rec condition () =
  match token () with
  | "true" -> PTrue
  | "less" -> let a = affine () in let b = affine () in PLt (a, b)
  | "at_most" -> let a = affine () in let b = affine () in PLe (a, b)
  | "equal" -> let a = affine () in let b = affine () in PEq (a, b)
  | "related" -> let r = token () in PRel (r, list affine)
  | "and" -> let p = condition () in let q = condition () in PAnd (p, q)
  | "or" -> let p = condition () in let q = condition () in POr (p, q)
  | "exists" -> let i = token () in let n = int () in PEx (i, n, condition ())
  | kind -> failwith ("no predicate is called " ^ kind)

let rec expression () =
  match token () with
  | "var" -> EVar (token ())
  | "const" -> ECst (rational ())
  | "add" -> let a = expression () in let b = expression () in EAdd (a, b)
  | "subtract" -> let a = expression () in let b = expression () in ESub (a, b)
  | "multiply" -> let a = expression () in let b = expression () in EMul (a, b)
  | "call" -> let f = int () in EFn (Function f, list expression)
  | "pair" -> let a = expression () in let b = expression () in EPair (a, b)
  | "fst" -> EFst (expression ())
  | "snd" -> ESnd (expression ())
  | "gen" -> let i = token () in let n = int () in EGen (i, n, expression ())
  | "sum" -> let i = token () in let n = int () in ESum (i, n, expression ())
  | "access" -> let e = expression () in EAcc (e, affine ())
  | "bracket" -> let p = condition () in EInd (p, expression ())
  | "let" -> let x = token () in let a = expression () in let b = expression () in ELet (x, a, b)
  | kind -> failwith ("no expression is called " ^ kind)

let rec kind () =
  match token () with
  | "real" -> TReal
  | "array" -> let n = int () in TArray (n, kind ())
  | "pair" -> let a = kind () in let b = kind () in TPair (a, b)
  | word -> failwith ("no type is called " ^ word)

let relation () =
  let name = token () in
  let rows = Hashtbl.create 64 in
  List.iter (fun row -> Hashtbl.replace rows row ()) (list (fun () -> list (fun () -> integer (int ()))));
  (name, Hashtbl.mem rows)

let index_array () =
  let name = token () in
  let shape = list int in
  let entries = Hashtbl.create 64 in
  List.iter (fun i -> Hashtbl.replace entries i (integer (int ()))) (box shape);
  (* a place outside of the array is asked for only where a conjunct beside it is false *)
  (name, fun i -> match Hashtbl.find_opt entries i with Some k -> k | None -> Z0)

(* lets of a program with conditions on values *)
let item () =
  match token () with
  | "bind" -> let x = token () in Bind (x, expression ())
  | "ask" ->
      let c = token () in
      let binders = list (fun () -> let i = token () in (i, int ())) in
      let p = condition () in
      let how = match token () with "<" -> Less | "<=" -> AtMost | "=" -> Same | op -> failwith op in
      let a = expression () in
      let b = expression () in
      Ask (c, binders, p, how, a, b)
  | kind -> failwith ("no item is called " ^ kind)

let ask how a b =
  match how with Less -> not (qle_bool b a) | AtMost -> qle_bool a b | Same -> qle_bool a b && qle_bool b a

let remembered f =
  let seen = Hashtbl.create 64 in
  fun y i ->
    match Hashtbl.find_opt seen (y, i) with
    | Some k -> k
    | None -> let k = f y i in Hashtbl.add seen (y, i) k; k

let program () =
  let name = token () in
  let functions = Array.of_list (list definition) in
  let relations = list relation in
  let arrays = list index_array in
  let data = { holds = (fun r i -> List.assoc r relations i); entry = (fun y i -> List.assoc y arrays i) } in
  let parameters = list (fun () -> let x = token () in (x, kind ())) in
  let leaf_values = Array.of_list (list leaf) in
  let typ = kind () in
  let items = list item in
  let e = expression () in
  let fval = value_of functions in
  let fcost = cost_of functions in
  let inp x i = Hashtbl.find (snd leaf_values.(x.name)) i in
  (* [p] * e computes e here where p is false as well: what it reads out of bounds does not matter *)
  let given = arguments_of zero (fun x i -> try inp x i with Not_found -> zero) (inputs parameters) in
  let data = decided zero add multiply subtract fval ask data given items in
  let data = { data with entry = remembered data.entry } in
  let e = erased items e in
  let ssa, outs = compiled data parameters e in
  let whole, gradients = derivative component data parameters e typ in
  let needed = prune (leaves outs @ List.map (fun c -> c.lhs) gradients) whole in
  let takes f n = match f with Function k -> functions.(k).arity = n | Component _ -> false in
  Printf.printf "program %s" name;
  say "accepted" (integer (Bool.to_int (accepts takes data parameters e typ)));
  say "cost" (expression_cost fcost data s0 e);
  say "compiled" (program_cost fcost ssa);
  say "adjoint" (program_cost fcost whole);
  say "inputs" (psize parameters);
  say "output" (tsize typ);
  print_newline ();
  let value = solve fval inp needed in
  List.iter (fun x -> print_array "value" (value x) x.shp) (leaves outs);
  List.iter (fun c -> print_array "gradient" (value c.lhs) c.tgt.shp) gradients

(* -- charges carried into others *)

let carrying () =
  let name = token () in
  let whole () = integer_of_string (token ()) in
  let points () = list (fun () -> list whole) in
  let piece () = let w = whole () in let ps = points () in (w, ps) in
  let lows = list piece in
  let highs = list piece in
  let row () = let cs = list whole in let c = whole () in (cs, c) in
  let step () =
    match token () with
    | "carry" -> let a = int () in let h = int () in let g = list row in Carry (a, h, g)
    | "open" -> let a = int () in let ps = points () in Open (a, ps)
    | other -> failwith other in
  let steps = list step in
  Printf.printf "carried %s" name;
  say "done" (integer (Bool.to_int (carried (lows, highs) steps)));
  say "low" (amounts lows);
  say "high" (amounts highs);
  print_newline ()

(* -- the table of scalar functions *)

let builtins =
  [ "exp", Exp; "log", Log; "sin", Sin; "cos", Cos; "tan", Tan; "tanh", Tanh; "sinh", Sinh; "cosh", Cosh;
    "sigmoid", Sigmoid; "sqrt", Sqrt; "recip", Recip; "where_ge", WhereGe; "where_gt", WhereGt; "sign", Sign;
    "relu", Relu; "abs", Abs; "max", Max; "min", Min; "erf", Erf; "softplus", Softplus; "logaddexp", Logaddexp;
    "log1p", Log1p; "expm1", Expm1; "log2", Log2; "log10", Log10; "asin", Asin; "acos", Acos; "atan", Atan;
    "asinh", Asinh; "acosh", Acosh; "atanh", Atanh; "cbrt", Cbrt; "rsqrt", Rsqrt; "erfc", Erfc; "erfinv", Erfinv;
    "lgamma", Lgamma; "digamma", Digamma; "trigamma", Trigamma; "tetragamma", Tetragamma; "pentagamma", Pentagamma;
    "floor", Floor;
    "ceil", Ceil; "round", Round; "mod", Mod; "atan2", Atan2; "power", PowerOf ]

let irrationals = [ Slope, "slope"; MinusSlope, "minus_slope"; OverSlope, "over_slope"; OverLog2, "over_log2"; OverLog10, "over_log10" ]

let rational_power numerator denominator = RealPower { qnum = integer numerator; qden = positive denominator }

(* as dump.py writes them *)
let rec words : Tlssa.scalar -> string list = function
  | Tlssa.Argument k -> ["argument"; string_of_int k]
  | Tlssa.Value -> ["value"]
  | Tlssa.Cotangent -> ["cotangent"]
  | Tlssa.Number c -> ["number"; string_of_rational c]
  | Irrational c -> [List.assoc c irrationals]
  | Plus (a, b) -> "add" :: "2" :: words a @ words b
  | Minus (a, b) -> "subtract" :: "2" :: words a @ words b
  | Times (a, b) -> "multiply" :: "2" :: words a @ words b
  | Call (Tlssa.Power n, es) -> "power" :: string_of_int (to_int n + 1) :: List.concat_map words es
  | Call (RealPower c, es) -> "power" :: string_of_rational (qred c) :: List.concat_map words es
  | Call (f, es) ->
      fst (List.find (fun (_, g) -> g = f) builtins) :: string_of_int (List.length es) :: List.concat_map words es

let print_functions () =
  let powers = List.init 40 (fun n -> (Printf.sprintf "power %d" (n + 2), Tlssa.Power (positive (n + 1)))) in
  let real n d = (Printf.sprintf "power %d/%d" n d, rational_power n d) in
  List.iter
    (fun (name, f) ->
      Printf.printf "%s;%d;%d" name (arity f) (small (bcost f));
      List.iter (fun e -> Printf.printf ";%s" (String.concat " " (words e))) (transpose f);
      print_newline ())
    (builtins @ powers @ [real 1 2; real 3 2; real 5 2; real (-1) 2; real 7 3])

let rec all () =
  match token () with
  | "case" -> case false; all ()
  | "forward" -> case true; all ()
  | "program" -> program (); all ()
  | "carried" -> carrying (); all ()
  | _ -> ()

let () =
  if Array.exists (( = ) "functions") Sys.argv then print_functions () else try all () with End_of_file -> ()
